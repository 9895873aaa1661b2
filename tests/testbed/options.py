"""The options of a test's control plane."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.testbed.parts import Part

__all__ = ["QUICK", "Extender", "Options"]


@dataclass(frozen=True)
class Extender:
    """A scheduler extender, as in KubeSchedulerConfiguration.

    Not ignorable as Kubernetes has it: while such an extender fails, no pod is scheduled.
    """

    url_prefix: str
    filter_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 1
    ignorable: bool = False
    node_cache_capable: bool = True
    timeout_s: float = 5.0
    ca_file: str = ""

    def as_configuration(self) -> dict[str, object]:
        configuration: dict[str, object] = {
            "urlPrefix": self.url_prefix,
            "filterVerb": self.filter_verb,
            "prioritizeVerb": self.prioritize_verb,
            "weight": self.weight,
            "ignorable": self.ignorable,
            "nodeCacheCapable": self.node_cache_capable,
            "httpTimeout": f"{self.timeout_s}s",
        }
        if self.url_prefix.startswith("https:"):
            configuration |= {
                "enableHTTPS": True,
                "tlsConfig": {"caFile": self.ca_file, "insecure": not self.ca_file},
            }
        return configuration


@dataclass(frozen=True)
class Options:
    """The defaults are a plain cluster without service accounts for pods.

    kept: the parts outlive the process that started them; otherwise they end with it, however it ends.
    service_accounts: pods get one, as in a real cluster. Off by default: without a controller manager, or
        in a namespace made a moment ago, pods would be refused because their account is not there yet.
    audit: a line in the audit log per request. Off when a test measures load.
    address: where the API server listens. Nodes in namespaces of their own don't reach our loopback.
    real_nodes: names of nodes with real kubelets: they get tokens, and may do what nodes may do.
    scheduler_settings: further top-level fields of KubeSchedulerConfiguration, such as profiles.
    flags: further command line flags per part; they come last, so they win.
    """

    kept: bool = False
    controller_manager: bool = True
    scheduler: bool = True
    service_accounts: bool = False
    audit: bool = True
    address: str = "127.0.0.1"
    real_nodes: tuple[str, ...] = ()
    extenders: tuple[Extender, ...] = ()
    scheduler_settings: Mapping[str, object] = field(default_factory=dict)
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    flags: Mapping[Part, tuple[str, ...]] = field(default_factory=dict)

    def wanted(self) -> list[Part]:
        unwanted = set()
        if not self.controller_manager:
            unwanted.add(Part.CONTROLLER_MANAGER)
        if not self.scheduler:
            unwanted.add(Part.SCHEDULER)
        return [part for part in Part if part not in unwanted]


QUICK = Options(
    flags={
        Part.CONTROLLER_MANAGER: (
            # A lost node is noticed within a quarter of a minute, not a whole one.
            "--node-monitor-period=1s",
            "--node-monitor-grace-period=15s",
            # Each test leaves a namespace to be emptied; who waits for one must not wait for all.
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            # A pod that was just deleted may be counted once more, until the next sync.
            "--resource-quota-sync-period=5s",
            # Autoscalers look every second, and believe in a pod's usage from its first moment on.
            "--horizontal-pod-autoscaler-sync-period=1s",
            "--horizontal-pod-autoscaler-cpu-initialization-period=0s",
            "--horizontal-pod-autoscaler-initial-readiness-delay=0s",
        )
    }
)
"""A whole control plane whose controllers lose no time: for tests."""
