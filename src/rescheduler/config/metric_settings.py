"""Where load is measured: the Prometheus server and its queries."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from rescheduler.config.policy_blocks import BLOCK_CONFIG, http_address
from rescheduler.config.setting_rules import InvalidSetting, SettingRule, duration, text

__all__ = ["Prometheus"]

_LONGEST_QUERY = 4000
"""The longest query in characters: it is part of a URL, whose length servers limit."""


def _query() -> SettingRule:
    def read(value: object) -> str:
        if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST_QUERY:
            raise InvalidSetting
        if not all(character.isprintable() or character in "\n\t" for character in value):
            raise InvalidSetting
        return value

    return SettingRule("string", f"a query in PromQL of at most {_LONGEST_QUERY} characters", read)


# What the kubelets' cAdvisor reports, as every common set-up collects it. A container that has restarted, or
# that two jobs collect, is there twice and counts once. Series without a container are totals of a pod or of
# the node, and `POD` is the pause container.
_CONTAINERS = 'container!="",container!="POD"'
_NODE = 'id="/"'
_CPU, _MEMORY = "container_cpu_usage_seconds_total", "container_memory_working_set_bytes"

_CPU_QUERY = (
    "sum by (namespace, pod) (max by (namespace, pod, container) "
    f"(rate({_CPU}{{{_CONTAINERS}}}[5m]))) or max by (node) (rate({_CPU}{{{_NODE}}}[5m]))"
)
_MEMORY_QUERY = (
    "sum by (namespace, pod) (max by (namespace, pod, container) "
    f"({_MEMORY}{{{_CONTAINERS}}})) or max by (node) ({_MEMORY}{{{_NODE}}})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prometheus:
    __pydantic_config__ = BLOCK_CONFIG

    url: Annotated[str | None, http_address("http://prometheus.monitoring:9090")] = None
    """Address of Prometheus or a server with the same HTTP API; unset means there is none."""
    cpu_query: Annotated[str, _query()] = _CPU_QUERY
    """Cores in use: one value per `namespace` and `pod`, and optionally one per `node`."""
    memory_query: Annotated[str, _query()] = _MEMORY_QUERY
    """Bytes in use, with the same labels as `cpuQuery`."""
    bearer_token_file: Annotated[str | None, text("the path of a file")] = None
    """File with the bearer token, sent over https only; read again every minute."""
    ca_file: Annotated[str | None, text("the path of a file")] = None
    """File with the trusted CA certificates; unset means those of the system."""
    timeout: Annotated[timedelta, duration(timedelta(seconds=1))] = timedelta(seconds=15)
    """How long a query may take."""
