"""What a field of an object is."""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final, TypeAlias

__all__ = ["NAME", "PARTS", "PLAIN", "Fields", "Tree", "What", "plain"]


class What(Enum):
    PLAIN = auto()
    """A number, a quantity, a time, a word of Kubernetes' own: if it is, it says nothing about its owner."""
    NAME = auto()
    """Of an object, a path, an image: words that somebody chose."""
    NAMESPACE = auto()
    CLAIM = auto()
    """The name of a claim: it may have been made from the name of a pod."""
    UID = auto()
    KIND = auto()
    """A kind of object, or the group and version of one."""
    DRIVER = auto()
    """A storage driver or plugin."""
    CONDITION = auto()
    """A type of conditions, or the reason of one."""
    ADDRESS = auto()
    LABELS = auto()
    """A mapping; also node selectors."""
    MARKS = auto()
    """Annotations, of those that say something to us."""
    AMOUNTS = auto()
    """Quantities by resource."""
    TIMES = auto()
    """Times by name."""
    LABEL_KEY = auto()
    REQUIREMENT = auto()
    """`key`, `operator` and `values` of labels."""
    FIELD_REQUIREMENT = auto()
    """The same, of an object's name."""
    TAINT = auto()
    """A taint, or what tolerates one: `key` and `value` like those of a label."""
    ANYTHING = auto()
    """A number or a percentage; a number or a list."""


Fields: TypeAlias = "What | Tree"
Tree: TypeAlias = Mapping[str, "Fields"]
"""An object, or each object of a list, by the names of its fields."""

PARTS: Final[Mapping[What, frozenset[str]]] = {
    What.REQUIREMENT: frozenset({"key", "operator", "values"}),
    What.FIELD_REQUIREMENT: frozenset({"key", "operator", "values"}),
    What.TAINT: frozenset({"key", "operator", "value", "effect", "timeAdded", "tolerationSeconds"}),
}
"""The fields of what is looked at as a whole."""

PLAIN: Final = What.PLAIN
NAME: Final = What.NAME


def plain(*names: str) -> dict[str, Fields]:
    return dict.fromkeys(names, PLAIN)
