"""How many nodes a set of pods needs at least, with any algorithm.

A linear program over sizes of nodes: how many of each are kept, as few as possible. Its rows are truths about
every packing. For each resource, the nodes kept have at least what the pods ask for together. And for each
resource and each unit u, counted in whole units: pods that fit on a node together have no more whole units
together than the node has, because ⌊a/u⌋ + ⌊b/u⌋ ≤ ⌊(a + b)/u⌋. With u = 11.3 cpu, a node of 96 takes eight
pods of 11.3 to 22.5 and no more, although it has room for 8.5: unavoidable waste is in the bound.
Everything else that could forbid a packing is left out, so that no plan can do better.
"""

import highspy
import numpy as np
import numpy.typing as npt

__all__ = ["fewest_nodes"]

Ints = npt.NDArray[np.int64]

_PARTS = 12
"""Units are what pods ask for, and what nodes have in up to so many equal parts."""


def fewest_nodes(nodes: Ints, node_counts: Ints, pods: Ints, pod_counts: Ints) -> int:
    """`nodes` and `pods` are [kind, resource]."""
    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    for kind, count in enumerate(node_counts.tolist()):
        model.addVar(0, count)
        model.changeColCost(kind, 1.0)
        model.changeColIntegrality(kind, highspy.HighsVarType.kInteger)
    for has, asked in _constraints(nodes, pods, pod_counts):
        kinds = np.flatnonzero(has).astype(np.int32)
        model.addRow(float(asked), highspy.kHighsInf, kinds.size, kinds, has[kinds].astype(np.float64))
    model.run()
    if model.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise ValueError("these pods fit on these nodes in no way")
    return round(model.getInfo().objective_function_value)


def _constraints(nodes: Ints, pods: Ints, pod_counts: Ints) -> list[tuple[Ints, int]]:
    """Return, per constraint, what each kind of node counts for, and what is needed."""
    found = []
    for resource in range(nodes.shape[1]):
        has, asks = nodes[:, resource], pods[:, resource]
        units = {
            1,
            *asks.tolist(),
            *(size // parts for size in has.tolist() for parts in range(1, _PARTS + 1)),
        }
        found += [(has // unit, int((asks // unit * pod_counts).sum())) for unit in sorted(units) if unit > 0]
    return found
