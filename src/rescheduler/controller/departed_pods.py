"""The last state of pods that were being moved when they went: it says whether they were deleted or evicted.

A hint only: this process has it if it saw the pod go. A pod whose end was not seen may have been evicted.
"""

from typing import Final

from rescheduler.controller.followed import Followed
from rescheduler.model.pods import PodRecord

__all__ = ["DepartedPods"]

_MOST: Final = 10_000


class DepartedPods:
    def __init__(self, seen: Followed) -> None:
        self._seen = seen
        self._last: dict[str, PodRecord] = {}
        seen.pods.informer.subscribe(self._on_change)

    def get(self, uid: str) -> PodRecord | None:
        """Return the last state of the pod with that uid; None if it was not seen to go."""
        return self._last.get(uid)

    def _on_change(self, old: PodRecord | None, new: PodRecord | None) -> None:
        if old is None or (new is not None and new.uid == old.uid):
            return
        if not self._seen.migrations.find("pod", (old.namespace, old.name)):
            return
        while len(self._last) >= _MOST:
            del self._last[next(iter(self._last))]
        self._last[old.uid] = old
