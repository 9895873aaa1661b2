"""What each node costs."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rescheduler.config.cost import Cost
from rescheduler.model.nodes import NodeRecord

__all__ = ["INSTANCE_TYPE", "prices_of"]

INSTANCE_TYPE = "node.kubernetes.io/instance-type"


def prices_of(nodes: Sequence[NodeRecord], cost: Cost) -> npt.NDArray[np.float64]:
    """[node]; the average of the known ones where none is known, 1 for all if none is known at all."""
    found = [_price(node, cost) for node in nodes]
    known = [price for price in found if price is not None]
    otherwise = sum(known) / len(known) if known else 1.0
    return np.array([otherwise if price is None else price for price in found], np.float64)


def _price(node: NodeRecord, cost: Cost) -> float | None:
    if cost.price_label is not None:
        price = _number(node.labels.get(cost.price_label, ""))
        if price is not None:
            return price
    return cost.prices.get(node.labels.get(INSTANCE_TYPE, ""))


def _number(text: str) -> float | None:
    """None for what is no price: a label may say anything."""
    try:
        price = float(text)
    except ValueError:
        return None
    return price if math.isfinite(price) and price >= 0 else None
