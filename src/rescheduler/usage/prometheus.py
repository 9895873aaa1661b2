"""Usage from Prometheus, or anything that answers as it does: two instant queries, cpu and memory."""

from pathlib import Path

from rescheduler.config.policy import UsageSource
from rescheduler.config.prometheus import Prometheus
from rescheduler.kube.access.cluster import ClusterAccess
from rescheduler.kube.access.credentials import Stored
from rescheduler.kube.network import Network
from rescheduler.kube.transport import NoAnswer, Request
from rescheduler.usage.readings import Outcome, Readings, Unavailable, Used
from rescheduler.usage.vectors import Amount, NotAVector, Vector, read_vector

__all__ = ["PrometheusReader"]

_PATH = "/api/v1/query"
_SHOWN = 200
"""Characters of an answer that is not understood."""


class _Failed(Exception):  # noqa: N818 - never leaves this file
    """What failed, why, and what to do."""


class PrometheusReader:
    """A `UsageReader`."""

    def __init__(self, settings: Prometheus) -> None:
        assert settings.url, "a configuration without it is refused"
        self._settings = settings
        self._url = settings.url
        self._network: Network | None = None

    async def read(self) -> Outcome:
        try:
            cpu = await self._ask("cpuQuery", self._settings.cpu_query)
            memory = await self._ask("memoryQuery", self._settings.memory_query)
        except _Failed as failed:
            # The next try starts from scratch: with the certificates as they are then.
            await self.close()
            return Unavailable(UsageSource.PROMETHEUS, str(failed))
        return Readings(
            UsageSource.PROMETHEUS,
            _both(cpu.pods, memory.pods),
            _both(cpu.nodes, memory.nodes),
            (*_notes("cpuQuery", cpu), *_notes("memoryQuery", memory)),
        )

    async def close(self) -> None:
        if self._network:
            await self._network.close()
            self._network = None

    async def _ask(self, name: str, query: str) -> Vector:
        """`name` is that of the setting."""
        status, body = await self._answer(query)
        if status in (401, 403):
            raise _Failed(f"{self._url} refuses to answer ({status}). Check prometheus.bearerTokenFile.")
        if body.lstrip()[:1] != b"{":
            told = " ".join(body[:_SHOWN].decode(errors="replace").split())
            raise _Failed(f"{self._url}{_PATH} is not Prometheus' ({status}: {told}). Check prometheus.url.")
        try:
            vector = read_vector(body)
        except NotAVector as error:
            why = f"{self._url} can't answer ({status}): {str(error).rstrip('.')}"
            raise _Failed(f"{why}. Check prometheus.{name}.") from error
        if not vector.pods:
            raise _Failed(
                f"{self._url} knows no pods: nothing in its answer has a namespace, a pod and a number. "
                f"Check prometheus.{name}, and whether Prometheus scrapes the kubelets."
            )
        return vector

    async def _answer(self, query: str) -> tuple[int, bytes]:
        timeout_s = self._settings.timeout.total_seconds()
        asked = (("query", query), ("timeout", f"{timeout_s:g}"))
        request = Request("GET", _PATH, asked, {"accept": "application/json"}, timeout_s=timeout_s)
        try:
            self._network = self._network or Network(self._access())
            async with await self._network.send(request) as response:
                return response.status, await response.read()
        except NoAnswer as broken:
            remedy = broken.remedy or "Check prometheus.url, and whether it runs."
            raise _Failed(f"Prometheus does not answer: {broken.reason.rstrip('.')}. {remedy}") from broken

    def _access(self) -> ClusterAccess:
        settings = self._settings
        token_file = Path(settings.bearer_token_file) if settings.bearer_token_file else None
        try:
            authority = Path(settings.ca_file).read_bytes() if settings.ca_file else None
        except OSError as error:
            raise _Failed(
                f"can't read {settings.ca_file}: {error.strerror}. Check prometheus.caFile."
            ) from error
        return ClusterAccess(self._url, Stored(token_file=token_file), "the prometheus settings", authority)


def _both(cpu: dict[str, Amount], memory: dict[str, Amount]) -> dict[str, Used]:
    """Who has only one of the two is not known well enough."""
    return {
        name: Used(round(cores.value * 1000), round(memory[name].value), min(cores.at_s, memory[name].at_s))
        for name, cores in cpu.items()
        if name in memory
    }


def _notes(name: str, vector: Vector) -> tuple[str, ...]:
    notes = tuple(f"Prometheus warns of {name}: {warning}" for warning in vector.warnings)
    if not vector.odd:
        return notes
    count = "1 value" if len(vector.odd) == 1 else f"{len(vector.odd)} values"
    return (*notes, f"{count} of prometheus.{name} can't be used, such as that of {vector.odd[0]}")
