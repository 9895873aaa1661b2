"""Pods as rows of numbers that follow from the pod alone, changed one by one.

Whatever depends on other objects too (the row of its node, its workload) is worked out when a snapshot is
frozen, from the few values that rows share. So the order in which changes arrive makes no difference.
"""

from itertools import chain
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from rescheduler.cluster.pod_classes import PodTemplates
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.snapshot import NO_ROW, Rows
from rescheduler.cluster.snapshot_columns import MAX_AMOUNT, InternedValues
from rescheduler.cluster.usage_readings import UsageByName, UsageReading

__all__ = ["UNMEASURED", "PodRows", "RowOrder", "counts_on_node"]

_ROW: Final = np.dtype(
    [
        ("node_name", np.int32),  # of the node that it counts on, or NOWHERE
        ("template", np.int32),
        ("ready", np.bool_),
        ("created_s", np.int64),
        ("cpu_used", np.int64),  # or UNMEASURED
        ("memory_used", np.int64),
    ]
)
UNMEASURED: Final = -1
_NOT_MEASURED: Final = (UNMEASURED, UNMEASURED)
_FIRST_SLOTS: Final = 64


class RowOrder(NamedTuple):
    """The rows of a snapshot: pods sorted by key."""

    keys: list[str]
    slots: Rows
    """Where each row's pod is kept."""


class PodRows:
    def __init__(self) -> None:
        self.node_names: InternedValues[str] = InternedValues()
        self.templates = PodTemplates()
        self._usage: UsageByName = {}

        self._slots: dict[str, int] = {}
        """Where each pod is kept, by key, as long as it is there."""
        self._free: list[int] = []
        self._records: list[PodRecord | None] = []
        self._rows = np.zeros(0, dtype=_ROW)

        self._order: RowOrder | None = None
        self._sorted: list[str] = []
        """The keys when they were last sorted."""
        self._added: dict[str, None] = {}
        self._removed: dict[str, None] = {}
        """How they differ from that now; not sets, because most come in order, which is worth keeping."""

    def put(self, pod: PodRecord) -> None:
        slot = self._slots.get(pod.key)
        if slot is None:
            slot = self._slots[pod.key] = self._new_slot()
            self._write(slot, pod)
            self._note_membership(pod.key, self._removed, self._added)
        else:
            before = self._rows[slot].item()[:2]
            self._write(slot, pod)
            self._release(*before)

    def remove(self, key: str) -> None:
        """Nothing happens if it isn't there."""
        slot = self._slots.pop(key, None)
        if slot is not None:
            self._release(*self._rows[slot].item()[:2])
            self._records[slot] = None
            self._free.append(slot)
            self._note_membership(key, self._added, self._removed)

    def measure(self, usage: UsageByName) -> None:
        """From now on these readings count, and no others."""
        self._usage = usage
        used = (_used(usage.get(pod.key), pod.created_s) if pod else _NOT_MEASURED for pod in self._records)
        flat = np.fromiter(chain.from_iterable(used), np.int64, 2 * len(self._records))
        self._rows["cpu_used"], self._rows["memory_used"] = flat[::2], flat[1::2]

    def order(self) -> RowOrder:
        if self._order is None:
            # Mostly sorted already, which costs little to sort.
            keys = [key for key in self._sorted if key not in self._removed]
            keys += sorted(self._added)
            keys.sort()
            slots = np.fromiter(map(self._slots.__getitem__, keys), np.int32, len(keys))
            self._order, self._sorted = RowOrder(keys, slots), keys
            self._added, self._removed = {}, {}
        return self._order

    def gathered(self) -> npt.NDArray[np.void]:
        """All rows, in order: fields as in `_ROW`."""
        return self._rows.take(self.order().slots)

    def records(self) -> tuple[PodRecord, ...]:
        """All records, in order."""
        slots = self.order().slots.tolist()
        return tuple(map(self._records.__getitem__, slots))  # type: ignore[arg-type]

    def _new_slot(self) -> int:
        if not self._free:
            held = len(self._records)
            more = max(_FIRST_SLOTS, held // 4)
            self._records.extend([None] * more)
            self._rows = np.concatenate((self._rows, np.zeros(more, dtype=_ROW)))
            self._free.extend(range(held + more - 1, held - 1, -1))
        return self._free.pop()

    def _write(self, slot: int, pod: PodRecord) -> None:
        self._records[slot] = pod
        self._rows[slot] = (
            self.node_names.take(pod.node) if counts_on_node(pod) else NO_ROW,
            self.templates.take(pod),
            pod.is_ready,
            pod.created_s,
            *_used(self._usage.get(pod.key), pod.created_s),
        )

    def _release(self, node_name: int, template: int) -> None:
        if node_name != NO_ROW:
            self.node_names.drop(node_name)
        self.templates.drop(template)

    def _note_membership(self, key: str, opposite: dict[str, None], changed: dict[str, None]) -> None:
        """What had gone and comes back is neither new nor gone; it may be in another slot, though."""
        self._order = None
        if key in opposite:
            del opposite[key]
        else:
            changed[key] = None


def counts_on_node(pod: PodRecord) -> bool:
    """On its node: it holds what it asked for until it has finished, also while it is being deleted."""
    return bool(pod.node) and not pod.is_finished


def _used(used: UsageReading | None, created_s: int) -> tuple[int, int]:
    # What was measured before it was made was another pod of the same name.
    if used is None or used.at_s < created_s:
        return _NOT_MEASURED
    return min(max(0, used.cpu_millis), MAX_AMOUNT), min(max(0, used.memory_bytes), MAX_AMOUNT)
