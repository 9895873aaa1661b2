"""LoadBalancing: balance the load of nodes with as few moves as possible."""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from rescheduler.cluster.snapshot import Flags
from rescheduler.strategies.load_balancing.balancing_problem import BalancingProblem
from rescheduler.strategies.strategy import Proposal, View

__all__ = ["LoadBalancing"]

_PASSES = 8
"""How often moves are looked for anew, after some were refused."""


class LoadBalancing:
    """Load is percent of allocatable, per resource. The spread is the highest minus the lowest over the
    strategy's Ready nodes; above `imbalanceThreshold` in any of `balanceResources`, pods move so that
    Σ(load - mean)² over all of them falls fastest, until the spread is inside the threshold.

    Pods don't bounce: a move must gain at least `minGain` of what its two nodes are off the mean by, and no
    pod moves unless its node is further above one that it may go to than the threshold allows.
    """

    name: ClassVar[str] = "LoadBalancing"
    urgent: ClassVar[bool] = False

    def too_hot(self, view: View) -> Flags:
        """[node]: those whose distance to the lowest is above the threshold."""
        problem = BalancingProblem(view)
        distance = problem.load_model.load - problem.load_model.lowest(problem.receives)
        flags = np.zeros(len(view.snapshot.nodes), np.bool_)
        flags[problem.nodes] = (distance > view.policy.imbalance_threshold).any(axis=1)
        return flags

    def propose(self, view: View) -> Iterator[Proposal]:
        for _ in range(_PASSES):
            problem = BalancingProblem(view)
            for bundle in problem.bundles():
                if problem.is_balanced or len(bundle.moves) > view.room:
                    return
                yield problem.proposal(bundle)
                problem.note_rejection(bundle)
            if not problem.is_worth_another_pass:
                return
