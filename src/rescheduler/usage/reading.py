"""The reader that the configuration asks for."""

from typing import Protocol

from rescheduler.config.policy import Policy, UsageSource
from rescheduler.kube.client import Client
from rescheduler.usage.choose import chosen_source
from rescheduler.usage.metrics_api import MetricsApi
from rescheduler.usage.prometheus import PrometheusReader
from rescheduler.usage.readings import Outcome, Readings

__all__ = ["RequestsOnly", "UsageReader", "usage_reader"]


class UsageReader(Protocol):
    async def read(self) -> Outcome:
        """What is used right now. Whatever goes wrong comes back as `Unavailable`; nothing is raised."""
        ...

    async def close(self) -> None: ...


class RequestsOnly:
    """For those who want load to be what pods ask for: there is nothing to read."""

    async def read(self) -> Outcome:
        return Readings(UsageSource.REQUESTS)

    async def close(self) -> None:
        pass


def usage_reader(policy: Policy, client: Client) -> UsageReader:
    """To be closed by who asked for it; the client stays open."""
    match chosen_source(policy):
        case UsageSource.PROMETHEUS:
            return PrometheusReader(policy.prometheus)
        case UsageSource.METRICS:
            return MetricsApi(client)
        case _:
            return RequestsOnly()
