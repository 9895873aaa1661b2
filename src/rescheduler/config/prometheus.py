"""The Prometheus to ask for usage: where it is, what to ask, and how to prove who we are."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated
from urllib.parse import urlsplit

from rescheduler.config.shape import BLOCK
from rescheduler.config.values import Refused, Rule, duration, text

__all__ = ["Prometheus"]

_LONGEST_QUERY = 4000
"""It goes into the address of a request, whose length servers limit."""


def _query() -> Rule:
    def read(value: object) -> str:
        if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST_QUERY:
            raise Refused
        if not all(character.isprintable() or character in "\n\t" for character in value):
            raise Refused
        return value

    return Rule("string", f"a query in PromQL of at most {_LONGEST_QUERY} characters", read)


def _address() -> Rule:
    def read(value: object) -> str:
        if not isinstance(value, str) or not _is_address(value):
            raise Refused
        return value.rstrip("/")

    example = "http://prometheus.monitoring:9090"
    return Rule("string", f"an http or https address such as {example}, without user and query", read)


def _is_address(value: str) -> bool:
    # It is shown and logged, so credentials have no place in it.
    if not value.isascii() or not value.isprintable() or any(mark in value for mark in " @?#"):
        return False
    try:
        parts = urlsplit(value)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port or an IPv6 address that is none
        return False


# What the kubelets' cAdvisor tells, as every common set-up collects it. A container that has restarted, or
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
    __pydantic_config__ = BLOCK

    url: Annotated[str | None, _address()] = None
    """Address of Prometheus, or of anything with its HTTP API; unset means there is none."""
    cpu_query: Annotated[str, _query()] = _CPU_QUERY
    """Cores in use: a value for each `namespace` and `pod`, and where known one for each whole `node`."""
    memory_query: Annotated[str, _query()] = _MEMORY_QUERY
    """Bytes in use, with the same labels as `cpuQuery`."""
    bearer_token_file: Annotated[str | None, text("the path of a file")] = None
    """File with the token to show, over https only; read again once a minute."""
    ca_file: Annotated[str | None, text("the path of a file")] = None
    """File with the certificates to trust; unset means those of the system."""
    timeout: Annotated[timedelta, duration(timedelta(seconds=1))] = timedelta(seconds=15)
    """How long a query may take."""
