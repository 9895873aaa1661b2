"""How many checks in a row a node was too hot: one bad moment moves nothing.

Load that comes from requests does not fluctuate, so there a node counts as hot at once.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from rescheduler.config.policy import UsageSource

__all__ = ["HotNodeHistory", "hot_subjects"]


@dataclass(frozen=True, slots=True)
class HotNodeHistory:
    """What one check leaves to the next. Begin with an empty one: nothing counts as hot after a start."""

    source: UsageSource | None = None
    checks: int = 0
    """Checks with this source, whatever they found."""
    in_a_row: Mapping[Hashable, int] = field(default_factory=dict)
    """Checks up to the last one that found this too hot, without a break; at least 1."""

    def after(self, too_hot: Iterable[Hashable], source: UsageSource) -> "HotNodeHistory":
        """After one more check.

        What is too hot is a node's name; or a strategy and a node, where strategies judge differently.
        Load from another source is another load: counting begins anew.
        """
        before = self if self.source is source else HotNodeHistory()
        counted = {subject: before.in_a_row.get(subject, 0) + 1 for subject in too_hot}
        return HotNodeHistory(source, before.checks + 1, counted)


def hot_subjects(
    heat: HotNodeHistory | None, too_hot: Iterable[Hashable], hot_checks: int
) -> frozenset[Hashable]:
    """Which of those that are too hot now count as hot. `heat` has the present check in it already.

    Without it (a single plan knows no checks before), all of them.
    """
    if heat is None or heat.source is UsageSource.REQUESTS:
        return frozenset(too_hot)
    return frozenset(subject for subject in too_hot if heat.in_a_row.get(subject, 0) >= hot_checks)
