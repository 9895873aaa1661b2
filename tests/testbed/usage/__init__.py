"""Usage as `metrics.k8s.io`, for `kubectl top` and other clients.

    async with UsageApi(client, kubelet).running(): ...

An aggregated API server of our own, reached through an APIService whose Service is an ExternalName for
localhost: the API server then looks for no endpoints (which may not be on loopback) and asks us directly.
Custom resources in that group work too, but each value would have to be written, for every pod and every
moment; here it is computed on request, so 150,000 pods cost nothing until then.
"""

from tests.testbed.usage.api import UsageApi

__all__ = ["UsageApi"]
