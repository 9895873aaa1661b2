"""Some fields of a pod need a kubelet that declares to know them."""

import numpy as np

from rescheduler.rules.check import Fixed
from rescheduler.rules.refusal import Refusal, Rule
from rescheduler.rules.terrain import Terrain

__all__ = ["declared_features"]


def declared_features(needed: tuple[str, ...], terrain: Terrain) -> Fixed | None:
    if not needed:
        return None
    wanted = frozenset(needed)

    def explain(node: int) -> Refusal:
        lacking = ", ".join(sorted(wanted.difference(terrain.records[node].declared_features)))
        reason = "node(s) didn't match Pod's required features"
        return Refusal(Rule.DECLARED_FEATURES, (reason,), f"the node does not declare {lacking}")

    passes = [wanted.issubset(record.declared_features) for record in terrain.records]
    return Fixed(np.array(passes, np.bool_), explain)
