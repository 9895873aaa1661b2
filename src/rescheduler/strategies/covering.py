"""Which pods to take off a node so that as few as possible have to go."""

import numpy as np
import numpy.typing as npt

from rescheduler.strategies.balance import Flags, Floats, Rows

__all__ = ["fewest"]

_MOST_PAIRED = 200
"""Pods, the largest, of which pairs are tried."""


def fewest(shares: Floats, excess: Floats, priorities: npt.NDArray[np.int32]) -> int | None:
    """The first of the fewest pods whose shares [pod, resource] cover the excess [resource] together.

    One that is enough, if there is one: the lowest priority, then the smallest. Else one of a pair that is
    enough. Else the one that covers most. None if no pod has a share in what is exceeded.
    """
    exceeded = excess > 0
    shares, excess = shares[:, exceeded], excess[exceeded]
    # What lies above the excess of a resource does not help.
    covered = (np.minimum(shares, excess) / excess).sum(axis=1)
    if not len(covered) or covered.max() <= 0:
        return None
    enough: Flags = np.all(shares >= excess, axis=1)
    if enough.any():
        size = (shares / excess).sum(axis=1)
        return _first(np.lexsort((size, priorities)), enough)
    largest = np.argsort(-covered, kind="stable")
    some = largest[:_MOST_PAIRED]
    pairs: Flags = np.all(shares[some][:, None] + shares[some] >= excess, axis=2)
    np.fill_diagonal(pairs, val=False)
    if pairs.any():
        in_pair = np.zeros(len(shares), np.bool_)
        in_pair[some[pairs.any(axis=1)]] = True
        return _first(np.lexsort((-covered, priorities)), in_pair)
    return int(largest[0])


def _first(order: Rows, among: Flags) -> int:
    return int(order[among[order]][0])
