"""Where load comes from, of what the configuration names and what it leaves open."""

from rescheduler.config.policy import Policy, UsageSource

__all__ = ["chosen_source"]


def chosen_source(policy: Policy) -> UsageSource:
    """`auto` is Prometheus if one is configured, else the metrics API; never `auto` itself.

    Whether the metrics API is served is seen when it is asked: if it is not, requests count. A Prometheus
    that is down is not replaced by the metrics API: its queries may well measure something else, and load
    would jump to and fro.
    """
    if policy.usage_source is not UsageSource.AUTO:
        return policy.usage_source
    return UsageSource.PROMETHEUS if policy.prometheus.url else UsageSource.METRICS
