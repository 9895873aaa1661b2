"""Who looks at the page, and what of the cluster they see.

A viewer sees the pods, moves and reasons of a namespace only if they may list its pods. Sums over a node
contain the pods of all namespaces: a viewer who may list nodes sees how full they are.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

__all__ = [
    "ACTION_KINDS",
    "EVERYTHING_VISIBLE",
    "ActionForbidden",
    "ActionImpossible",
    "Viewer",
    "Visibility",
]

ACTION_KINDS: Final = ("move", "apply", "cancel", "pause", "resume", "drain", "undrain")


class ActionImpossible(Exception):  # noqa: N818 - says what is the case
    """The action can't be done now; the message says why."""


class ActionForbidden(Exception):  # noqa: N818 - says what is the case
    """The viewer may not do this; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Visibility:
    nodes: bool = False
    """Whether the viewer may list nodes."""
    namespaces: frozenset[str] | None = frozenset()
    """Namespaces whose pods the viewer may list; None for all."""

    @property
    def sees_all(self) -> bool:
        return self.namespaces is None

    def sees(self, namespace: str) -> bool:
        return self.namespaces is None or namespace in self.namespaces

    def sees_key(self, key: str) -> bool:
        """Return whether an object is visible, by `namespace/name`; for a name alone, whether nodes are."""
        namespace, slash, _ = key.partition("/")
        return self.sees(namespace) if slash else self.nodes


EVERYTHING_VISIBLE: Final = Visibility(nodes=True, namespaces=None)


@dataclass(frozen=True, slots=True)
class Viewer:
    """One authenticated user, as of the last check of their permissions."""

    name: str
    visibility: Visibility
    actions: Mapping[str, bool] = field(default_factory=dict)
    """Whether each kind of action is allowed somewhere; empty on a page that only shows."""

    def may(self, action: str) -> bool:
        return self.actions.get(action, False)
