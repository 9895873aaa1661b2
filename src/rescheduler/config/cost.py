"""What nodes cost, for the strategy that empties them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from rescheduler.config.shape import BLOCK
from rescheduler.config.values import label_key, number, text

__all__ = ["Cost"]

_HIGHEST = 1_000_000

InstanceType = Annotated[str, text("an instance type such as m7i.large", r"\S+")]
Price = Annotated[float, number(0, _HIGHEST)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    __pydantic_config__ = BLOCK

    price_label: Annotated[str | None, label_key()] = None
    """Node label whose value is the price of that node, a number such as `0.192` in any currency and per
    any time; it goes before `prices`."""
    prices: Mapping[InstanceType, Price] = field(default_factory=dict)
    """Price by instance type, which is the node label `node.kubernetes.io/instance-type`. A node without a
    price counts with the average of the known ones; without any price all nodes count the same."""
