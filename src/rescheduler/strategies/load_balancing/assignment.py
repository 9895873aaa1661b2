"""Hold the assignment of pods to nodes that the search changes, and what is known about possible targets.

Nothing here acts: the result is a list of moves that the strategy proposes and the planner checks again.

Loads are in percent. The imbalance is Σ(load - mean)² over nodes and resources. A pod adds `amount · weight`
to its node, so a move changes two nodes only, and the gains of many moves are one product of matrices:

    gain(pod: s → t) = Σ_resources  u·(2·off[s] - u) - v·(2·off[t] + v)       u, v: its share of s and of t

`off` is the deviation from the mean. The mean shifts slightly when nodes differ in size; it is treated as
fixed until `recompute_mean`, which can only underestimate a gain.

Products of long, narrow matrices are computed in slices small enough for one thread. With more threads,
OpenBLAS waits longer than it works, and the last bits of the result depend on the number of cores, so the
same cluster could get different plans.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rescheduler.cluster.snapshot import Flags, Floats, Indices, Rows

__all__ = [
    "NEGLIGIBLE",
    "Assignment",
    "AssignmentRules",
    "LoadModel",
    "SearchBounds",
    "matrix_product",
    "matrix_products",
    "over_resources",
]


_MAX_MULTIPLICATIONS = 2**17
"""The most multiplications per product: OpenBLAS, which numpy uses, splits larger ones among threads."""


def matrix_product(left: Floats, right: Floats) -> Floats:
    """Return `left @ right.T`."""
    found: Floats = np.empty((len(left), len(right)))
    rows = max(1, _MAX_MULTIPLICATIONS // max(1, right.size))
    for start in range(0, len(left), rows):
        np.matmul(left[start : start + rows], right.T, out=found[start : start + rows])
    return found


def matrix_products(left: Floats, right: Floats) -> Floats:
    """Return `left[i] @ right[i].T` for each i."""
    found: Floats = np.empty((len(left), left.shape[1], right.shape[1]))
    for each, (one, other) in enumerate(zip(left, right, strict=True)):
        found[each] = matrix_product(one, other)
    return found


def over_resources(values: Floats) -> Floats:
    """Return the sum over the last axis. Adding a few columns one by one is much faster than `sum`."""
    total: Floats = values[..., 0].copy()
    for column in range(1, values.shape[-1]):
        total += values[..., column]
    return total


class LoadModel:
    amount: Floats
    """[pod, resource]"""
    weight: Floats
    """[node, resource]: percent of the node per unit; 0 if the node does not have the resource."""
    at: Indices
    """[pod]: its current node."""
    load: Floats
    """[node, resource]: percent; 0 if the node does not have the resource."""
    deviation: Floats
    """[node, resource]: percentage points above the mean; 0 if the node does not have the resource."""

    def __init__(self, amount: Floats, weight: Floats, at: Indices, load: Floats) -> None:
        self.amount, self.weight = amount, weight
        self.at, self.load = at.copy(), load.copy()
        self._weight_squared = weight * weight
        self._has = weight > 0
        self._all_have = bool(self._has.all())
        self._witness = (0, 0, 0)
        self._having = np.maximum(self._has.sum(axis=0), 1)
        self.recompute_mean()

    def copy(self) -> "LoadModel":
        return LoadModel(self.amount, self.weight, self.at, self.load)

    def recompute_mean(self) -> None:
        self.deviation = np.where(self._has, self.load - self.load.sum(axis=0) / self._having, 0.0)

    @property
    def squared_deviation(self) -> float:
        """Return Σ(load - mean)² over the nodes that have the resource at all."""
        squares = np.square(self.load).sum(axis=0) - np.square(self.load.sum(axis=0)) / self._having
        return float(squares.sum())

    def distances(self) -> Floats:
        """Return [node]: the squared deviation from the mean, summed over all resources."""
        return over_resources(np.square(self.deviation))

    def lowest(self, nodes: Flags) -> Floats:
        """Return [resource]: the lowest load of these nodes."""
        loads = self.load[nodes]
        if not self._all_have:
            loads[~self._has[nodes]] = np.inf
        lowest: Floats = loads.min(axis=0, initial=np.inf)
        return lowest

    def is_inside(self, threshold: float, receives: Flags) -> bool:
        """Return whether the spread is inside the threshold in every resource.

        A node that receives no pods does not count as too cold, because no move could change that.
        """
        high, low, resource = self._witness
        # If the two nodes that were too far apart before still are, the others need not be checked.
        if receives[low] and self.load[high, resource] - self.load[low, resource] > threshold:
            return False
        spread = self.load.max(axis=0) - self.lowest(receives)
        resource = int(spread.argmax())
        high = int(self.load[:, resource].argmax())
        low = int(np.where(receives & self._has[:, resource], self.load[:, resource], np.inf).argmin())
        self._witness = high, low, resource
        return bool((spread <= threshold).all())

    def is_even(self, tolerance: float) -> bool:
        """Return whether the root mean square of the deviations is at most `tolerance`."""
        return self.squared_deviation <= self.load.size * tolerance**2

    def put(self, pod: int, node: int) -> None:
        source = self.at[pod]
        amount = self.amount[pod]
        less, more = amount * self.weight[source], amount * self.weight[node]
        for column in (self.load, self.deviation):
            at_source, at_node = column[source], column[node]  # views: written to in place
            at_source -= less
            at_node += more
        self.at[pod] = node

    def relief(self, pods: Indices) -> Floats:
        """Return [pod]: the gain of leaving its node."""
        at = self.at[pods]
        share = self.amount[pods] * self.weight[at]
        return over_resources(share * (2 * self.deviation[at] - share))

    def gains(self, pods: Indices, nodes: Indices) -> Floats:
        """Return [pod, node]: the gain of moving each pod to each node; 0 for its own node."""
        amount = self.amount[pods]
        weight = self.weight[nodes]
        cost = np.concatenate([2 * weight * self.deviation[nodes], weight * weight], axis=1)
        gains = matrix_product(np.concatenate([amount, amount**2], axis=1), cost)
        np.subtract(self.relief(pods)[:, None], gains, out=gains)
        gains[self.at[pods][:, None] == nodes] = 0.0
        return gains

    def gains_each(self, pods: Indices, nodes: Indices) -> Floats:
        """Return [i]: the gain of moving `pods[i]` to `nodes[i]`."""
        share = self.amount[pods] * self.weight[nodes]
        return self.relief(pods) - over_resources(share * (2 * self.deviation[nodes] + share))

    def exchange_gains(self, pods: Indices, others: Indices) -> Floats:
        """Return [pod, other]: the gain of swapping the two; 0 on the same node.

        Groups of both, [group, pod] and [group, other], give [group, pod, other]. The square of the
        difference expands to products of a term of one pod with a term of the other, so all pairs cost one
        matrix product.
        """
        amount, slope, bend = self._terms(pods)
        other_amount, other_slope, other_bend = self._terms(others)
        left = np.concatenate([slope - 2 * bend * amount, bend, amount, amount**2], axis=-1)
        right = np.concatenate(
            [other_amount, other_amount**2, other_slope - 2 * other_bend * other_amount, other_bend], axis=-1
        )
        alone = over_resources((slope - bend * amount) * amount)
        other_alone = over_resources((other_slope - other_bend * other_amount) * other_amount)
        gains = matrix_products(left, right) if pods.ndim > 1 else matrix_product(left, right)
        np.subtract(alone[..., None] + other_alone[..., None, :], gains, out=gains)
        gains[self.at[pods][..., None] == self.at[others][..., None, :]] = 0.0
        return gains

    def exchange_gains_each(self, pods: Indices, others: Indices) -> Floats:
        """Return [i]: the gain of swapping `pods[i]` and `others[i]`."""
        amount, slope, bend = self._terms(pods)
        other_amount, other_slope, other_bend = self._terms(others)
        more = other_amount - amount
        return -over_resources(more * (slope - other_slope + (bend + other_bend) * more))

    def _terms(self, pods: Indices) -> tuple[Floats, Floats, Floats]:
        """Return [pod, resource]: the amount, and the slope and curvature of the imbalance over the amount on
        its node."""
        at = self.at[pods]
        return self.amount[pods], 2 * self.weight[at] * self.deviation[at], self._weight_squared[at]


EVEN = 0.06
"""An average deviation from the mean that is not worth a move, in percentage points."""
NEGLIGIBLE = 0.0064
"""The largest gain that is not worth a move, in squared percentage points."""
SAMPLE = 32
"""The rules are asked about all nodes for this many pods, then for one in this many of those that follow."""
ENOUGH_ASKED = 8
"""How many pods of the sample are needed before anything is concluded about nodes."""


class AssignmentRules(Protocol):
    """The rules for moving pods, asked only about pods that are worth moving."""

    def may_move(self, pod: int) -> bool: ...

    def places(self, pod: int) -> Flags:
        """Return [node]: the pod may go there now."""
        ...

    def may_go(self, pod: int, node: int) -> bool:
        """Return the same for one node, which is cheaper."""
        ...

    def may_swap(self, pod: int, other: int) -> bool:
        """Return whether two pods may swap their nodes."""
        ...

    def move(self, pod: int, node: int) -> None:
        """Move the pod to the node."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchBounds:
    sheds: Flags
    """[node]: pods may leave it."""
    receives: Flags
    """[node]: pods may be sent to it."""
    limit: int
    """The most moves."""
    threshold: float
    """The spread that is tolerated, in percentage points."""
    min_gain: float
    """The share of the imbalance of its nodes that a move must remove."""


class Assignment:
    def __init__(
        self,
        load_model: LoadModel,
        rules: AssignmentRules,
        priority: Rows,
        bounds: SearchBounds,
    ) -> None:
        self.load_model, self.bounds = load_model, bounds
        self.priority = priority
        self.home = load_model.at.copy()
        self.moves = 0
        """How many pods are not on their original node."""
        self.immovable = np.zeros(len(self.home), np.bool_)
        """[pod]: is known to be immovable."""
        self.constrained = np.zeros(len(self.home), np.bool_)
        """[pod]: is known to be excluded from some node that takes other pods."""
        self._rules = rules
        self._free_to_move: set[int] = set()
        self._places: dict[int, Flags] = {}
        self._met = 0
        """How many pods the rules were asked about."""
        self._asked = 0
        """How many of them are in the sample, which is asked about all nodes."""
        self._allowed = np.zeros(len(bounds.receives), np.int32)

    @property
    def balanced(self) -> bool:
        """Return whether the spread is inside the threshold, or the rest of the difference is negligible."""
        return self.is_inside or self.load_model.is_even(EVEN)

    @property
    def is_inside(self) -> bool:
        return self.load_model.is_inside(self.bounds.threshold, self.bounds.receives)

    def moved_pods(self) -> Indices:
        """Return the rows of the pods that move."""
        return np.flatnonzero(self.load_model.at != self.home)

    def is_moved(self, pod: int) -> bool:
        return bool(self.load_model.at[pod] != self.home[pod])

    def may_move(self, pod: int) -> bool:
        """Return whether the pod may move; record it in `immovable` if not."""
        if pod in self._free_to_move:
            return True
        if self.immovable[pod] or not self._rules.may_move(pod):
            self.immovable[pod] = True
            return False
        self._free_to_move.add(pod)
        return True

    def places(self, pod: int) -> Flags:
        """Return [node]: the pod may go there; as found on the first call since `forget_targets`."""
        known = self._places.get(pod)
        if known is None:
            known = self._find_targets(pod)
        return known

    def _find_targets(self, pod: int) -> Flags:
        if not self.may_move(pod):
            return np.zeros(len(self.bounds.receives), np.bool_)
        places = self._places[pod] = self._rules.places(pod) & self.bounds.receives
        barred = self.common_targets & ~places
        barred[self.load_model.at[pod]] = False
        self.constrained[pod] = barred.any()
        return places

    @property
    def common_targets(self) -> Flags:
        """Return [node]: at least a tenth of the sampled pods may go there.

        A node may be the coldest because few pods may run there; then it is no target for pods in general.
        """
        if self._asked < ENOUGH_ASKED:
            return self.bounds.receives
        return self.bounds.receives & (self._allowed * 10 >= self._asked)

    def forget_targets(self) -> None:
        """Forget the known targets, because moves have freed or taken room."""
        self._places.clear()
        self.constrained[:] = False

    def may_go(self, pod: int, node: int) -> bool:
        """Return whether every rule allows the move now; find all targets of the pod only if not."""
        if node == self.home[pod]:
            return True
        if not self.bounds.receives[node] or not self.may_move(pod):
            return False
        known = self._places.get(pod) if pod in self._places else self._sampled(pod)
        if known is not None and not known[node]:
            return False
        if self._rules.may_go(pod, node):
            return True
        if known is None:
            self._find_targets(pod)
        return False

    def _sampled(self, pod: int) -> Flags | None:
        """Return the targets of the pod if it is in the sample that shows which nodes take many pods."""
        self._met += 1
        if self._met > SAMPLE and self._met % SAMPLE:
            return None
        places = self._find_targets(pod)
        self._asked += 1
        self._allowed += places
        return places

    def may_exchange(self, pod: int, other: int) -> bool:
        here, there = int(self.load_model.at[pod]), int(self.load_model.at[other])
        if not (self.reaches_far_enough(pod, there) or self.reaches_far_enough(other, here)):
            return False
        if self.may_go(pod, there) and self.may_go(other, here):
            return True
        if self.immovable[pod] or self.immovable[other] or self.is_moved(pod) or self.is_moved(other):
            return False
        return self._rules.may_swap(pod, other)

    def is_worth_it(self, gain: float, nodes: tuple[int, int]) -> bool:
        """Return whether the gain is worth a move, relative to the imbalance of both nodes."""
        if gain <= NEGLIGIBLE or not self.bounds.min_gain:
            return gain > NEGLIGIBLE
        return gain > self.bounds.min_gain * float(np.square(self.load_model.deviation[list(nodes)]).sum())

    def reaches_far_enough(self, pod: int, target: int) -> bool:
        """Return whether the load of the pod's node exceeds that of some possible target by more than the
        threshold.

        A node that is cold because no pod may run there must not cause moves between the others.
        """
        here, threshold = self.load_model.load[self.load_model.at[pod]], self.bounds.threshold
        if not threshold or (here - self.load_model.load[target] > threshold).any():
            return True
        return bool((here - self.load_model.lowest(self.places(pod)) > threshold).any())

    def put(self, pod: int, node: int) -> None:
        before = self.is_moved(pod)
        self.load_model.put(pod, node)
        self._rules.move(pod, node)
        self.moves += self.is_moved(pod) - before

    def exchange(self, pod: int, other: int) -> None:
        to, back = int(self.load_model.at[other]), int(self.load_model.at[pod])
        self.put(pod, to)
        self.put(other, back)

    def arrangement(self) -> Indices:
        """Return the current positions, to restore them later."""
        return self.load_model.at.copy()

    def restore(self, arrangement: Indices) -> None:
        for pod in np.flatnonzero(self.load_model.at != arrangement).tolist():
            self.put(pod, int(arrangement[pod]))
