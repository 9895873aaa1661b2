"""Products of long, narrow matrices, on one core.

A large product makes the linear algebra library wake a thread per core; with a handful of columns they wait
for each other longer than they work, above all on a busy machine. And how the rows are shared out changes the
last bits of the result: the same cluster would get another plan on another number of cores. Slices small
enough for one thread do neither.
"""

import numpy as np
import numpy.typing as npt

__all__ = ["product", "products"]

Floats = npt.NDArray[np.float64]

_MOST_AT_ONCE = 2**17
"""Multiplications: OpenBLAS, which numpy brings along, shares out what is larger than twice that."""


def product(left: Floats, right: Floats) -> Floats:
    """`left @ right.T`."""
    found: Floats = np.empty((len(left), len(right)))
    rows = max(1, _MOST_AT_ONCE // max(1, right.size))
    for start in range(0, len(left), rows):
        np.matmul(left[start : start + rows], right.T, out=found[start : start + rows])
    return found


def products(left: Floats, right: Floats) -> Floats:
    """The same for each of a pile: `left[i] @ right[i].T`."""
    found: Floats = np.empty((len(left), left.shape[1], right.shape[1]))
    for each, (one, other) in enumerate(zip(left, right, strict=True)):
        found[each] = product(one, other)
    return found
