"""How many pods of certain classes are in each domain, kept up to date while pods are moved about.

Every rule that looks at other pods asks this one question: which classes, by what domains. A zone, a node
and the whole cluster are all domains. Counts are sparse: a workload is on few of many nodes.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable

from rescheduler.rules.positions import Positions
from rescheduler.snapshot.snapshot import NOWHERE, Rows

__all__ = ["Tallies", "Tally"]


class Tally:
    __slots__ = ("classes", "counts", "domain_of", "ending")

    def __init__(self, classes: tuple[int, ...], domain_of: Rows, *, ending: bool, nodes: Rows) -> None:
        self.classes = classes
        """Those that count, sorted."""
        self.domain_of = domain_of
        """[node]: its domain; pods on nodes of `NOWHERE` don't count."""
        self.ending = ending
        """Whether pods count that are being deleted."""
        self.counts: dict[int, int] = Counter(domain_of[nodes].tolist())
        """By domain; only those where there is at least one."""
        self.counts.pop(NOWHERE, None)

    def at(self, node: int) -> int:
        """How many there are in that node's domain."""
        return self.counts.get(int(self.domain_of[node]), 0)

    def add(self, node: int, by: int) -> None:
        domain = int(self.domain_of[node])
        if domain == NOWHERE:
            return
        count = self.counts.get(domain, 0) + by
        if count:
            self.counts[domain] = count
        else:
            del self.counts[domain]


class Tallies:
    """Equal questions share their tally."""

    def __init__(self, positions: Positions) -> None:
        self._positions = positions
        self._tallies: dict[tuple[tuple[int, ...], int, bool], Tally] = {}
        self._with_class: defaultdict[int, list[Tally]] = defaultdict(list)

    def of(self, classes: Iterable[int], domain_of: Rows, *, ending: bool = True) -> Tally:
        listed = tuple(sorted(classes))
        question = (listed, id(domain_of), ending)  # the tally keeps the array, so its id stays taken
        found = self._tallies.get(question)
        if found is None:
            nodes = self._positions.nodes_of(listed, ending=ending)
            found = self._tallies[question] = Tally(listed, domain_of, ending=ending, nodes=nodes)
            for pod_class in listed:
                self._with_class[pod_class].append(found)
        return found

    def count(self, pod_class: int, node: int, by: int, *, is_ending: bool) -> None:
        """So many pods of that class more on that node."""
        for tally in self._with_class.get(pod_class, ()):
            if tally.ending or not is_ending:
                tally.add(node, by)
