"""How often a failing replica may be rescheduled: as often as its owner says, and not at all unless asked.

Owners are tenants: what they may ask for has an upper bound, `failedPods.maxRetries`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rescheduler.config.policy import FailedPods
from rescheduler.model.pods import PodRecord
from rescheduler.model.workloads import WORKLOAD_KINDS, WorkloadRecord, controller_of

__all__ = ["RETRIES", "Allowance", "Malformed", "allowance_of", "chain_of", "said_by"]

RETRIES: Final = "scheduling-retries"
"""The annotation by which owners ask for it."""

_BY_DEFAULT: Final = "failedPods.defaultRetries"
_MOST_DIGITS: Final = 9
"""Whatever is longer is above every bound; Python refuses to read numbers of thousands of digits."""
_MOST_SHOWN: Final = 40
"""Of what somebody has written: an annotation may have a quarter of a million characters."""


@dataclass(frozen=True, slots=True)
class Allowance:
    retries: int
    """Reschedulings of one failing replica."""
    by: str
    """Who says so: `Deployment/web`, or `failedPods.defaultRetries`."""
    asked_for: str = ""
    """What the annotation says if that is more than `failedPods.maxRetries` allows; empty otherwise."""

    @property
    def words(self) -> str:
        """Who says so, and whether that was capped."""
        return f"{self.by}, {self.cap}" if self.asked_for else self.by

    @property
    def cap(self) -> str:
        return f'{RETRIES}: "{self.asked_for}" is capped at {self.retries} by failedPods.maxRetries'


@dataclass(frozen=True, slots=True)
class Malformed:
    """What stands there makes no sense, and so allows nothing: not even the default, because who wrote
    `"off"` did not mean that."""

    kind: str
    key: str
    value: str

    @property
    def why(self) -> str:
        return f'{RETRIES}: "{_shown(self.value)}" on {self.kind} {self.key} is not a whole number from 0 on'


def chain_of(pod: PodRecord, controllers: Mapping[str, WorkloadRecord]) -> tuple[WorkloadRecord, ...]:
    """The controllers above a pod, as far as they are known, the nearest first."""
    found: list[WorkloadRecord] = []
    owner = pod.owner
    while owner is not None and WORKLOAD_KINDS.get(owner.kind) == owner.api_version:
        record = controller_of(controllers, pod.namespace, owner)
        if record is None or record in found:
            break
        found.append(record)
        owner = record.owner
    return tuple(found)


def allowance_of(
    pod: PodRecord, chain: Sequence[WorkloadRecord], terms: FailedPods
) -> Allowance | Malformed | None:
    """None if nobody asked for it. `chain` are the controllers above the pod, the nearest first."""
    if pod.owner is not None and not chain:
        return None
    for holder in _where_it_may_stand(pod, chain):
        if (said := said_by(*holder, terms)) is not None:
            return said
    for default in terms.default_retries:
        here = not default.namespaces or pod.namespace in default.namespaces
        if here and default.pod_selector.matches(pod.labels):
            return Allowance(default.retries, _BY_DEFAULT)
    return None


def said_by(
    kind: str, key: str, marks: Mapping[str, str], terms: FailedPods
) -> Allowance | Malformed | None:  # fmt: skip
    """What the annotations of one object say, whoever belongs to it; None if nothing."""
    value = marks.get(RETRIES)
    return None if value is None else _read(kind, key, value, terms.max_retries)


def _where_it_may_stand(
    pod: PodRecord, chain: Sequence[WorkloadRecord]
) -> Iterator[tuple[str, str, Mapping[str, str]]]:
    """The topmost counts. A ReplicaSet only has copies of what its Deployment once had, and keeps them."""
    if not chain:
        yield "Pod", pod.key, pod.marks
    for record in reversed(chain):
        yield record.kind, record.key, record.marks
        if record.kind == "Deployment":
            return


def _read(kind: str, key: str, value: str, most: int) -> Allowance | Malformed:
    if not (value.isascii() and value.isdigit()):
        return Malformed(kind, key, value)
    by, digits = f"{kind}/{key.rpartition('/')[2]}", value.lstrip("0")
    if len(digits) > _MOST_DIGITS or int(digits or "0") > most:
        return Allowance(most, by, asked_for=_shown(value))
    return Allowance(int(digits or "0"), by)


def _shown(value: str) -> str:
    return value if len(value) <= _MOST_SHOWN else f"{value[:_MOST_SHOWN]}…"
