"""A small part of CEL, the language of validation rules and match conditions.

It has comparisons, `&& || ! ?:`, arithmetic, `in`, `has()`, `size()`, the usual tests of texts, and the
macros `all exists exists_one filter map`. An expression that needs more is refused when it is given
(`Unsupported`): a rule that is silently ignored would be worse than none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rescheduler.simulator.admission.expressions.evaluation import (
    evaluate,
    expect_supported,
    inner_nodes,
)
from rescheduler.simulator.admission.expressions.functions import Undefined
from rescheduler.simulator.admission.expressions.syntax import Name, Node, Unsupported, parse

__all__ = ["Expression", "Undefined", "Unsupported", "compile_expression"]


@dataclass(frozen=True, slots=True)
class Expression:
    text: str
    tree: Node

    def holds(self, variables: Mapping[str, Any]) -> bool:
        """Raises `Undefined` if the expression has no value, or one that is neither true nor false."""
        value = evaluate(self.tree, variables)
        if not isinstance(value, bool):
            raise Undefined(f"{self.text}: neither true nor false")
        return value

    def mentions(self, name: str) -> bool:
        return _mentions(self.tree, name)


@lru_cache(maxsize=512)
def compile_expression(text: str) -> Expression:
    """Raises `Unsupported`."""
    tree = parse(text)
    expect_supported(tree)
    return Expression(text, tree)


def _mentions(node: Node, name: str) -> bool:
    return node == Name(name) or any(_mentions(inner, name) for inner in inner_nodes(node))
