"""All intents of a moment, by the pods that they are for.

A replacement of a pod without a name of its own can't be told from any other new pod of its workload, so an
intent for one is heeded by each: a workload that is scaled up while one of its pods is being moved has all
its new pods steered. Of several intents for the same pod, all exclusions count, and the one preference is
that of the migration which was used least, so that several replacements go to several targets.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from rescheduler.intents.intent import Intent

__all__ = ["NOTHING_USED", "IntentBook"]

NOTHING_USED: Final[Mapping[str, int]] = MappingProxyType({})


class IntentBook:
    def __init__(self, intents: Iterable[Intent] = ()) -> None:
        self._by_workload: dict[str, list[Intent]] = {}
        for intent in intents:
            self._by_workload.setdefault(intent.workload.uid, []).append(intent)

    def __len__(self) -> int:
        return sum(map(len, self._by_workload.values()))

    def intent_for(
        self,
        namespace: str,
        workload_uid: str,
        pod_name: str,
        *,
        used: Mapping[str, int] = NOTHING_USED,
        told_before: str = "",
    ) -> Intent | None:
        """`used` says how often each migration has been answered with already, by `namespace/name`;
        `told_before` is the migration that this very pod has been told of."""
        found = [
            intent
            for intent in self._by_workload.get(workload_uid, ())
            if intent.namespace == namespace and intent.pod_name in {None, pod_name}
        ]
        if not found:
            return None

        def rank(intent: Intent) -> tuple[bool, bool, int, str]:
            times = used.get(f"{namespace}/{intent.cause}", 0)
            return (intent.cause != told_before, intent.is_answered, times, intent.cause)

        # Only a migration knows where to; failed attempts add where not.
        chosen = min([intent for intent in found if intent.cause] or found, key=rank)
        avoid = {node for intent in found for node in intent.avoid}
        tried = {node for intent in found for node in intent.tried} - avoid
        # To go to a node that others of the same workload are moved away from helps nobody.
        prefer = "" if chosen.prefer in avoid | tried else chosen.prefer
        return replace(chosen, prefer=prefer, avoid=tuple(sorted(avoid)), tried=tuple(sorted(tried)))
