"""The viewer of the page, and the part of the cluster that they see.

A viewer sees the pods, moves and reasons of a namespace only if they may list its pods. Sums over a node
contain the pods of all namespaces: a viewer who may list nodes sees how full they are.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

__all__ = [
    "ACTION_KINDS",
    "EVERYTHING_VISIBLE",
    "HIDDEN_NAME",
    "ActionForbidden",
    "ActionImpossible",
    "Viewer",
    "Visibility",
]

HIDDEN_NAME: Final = "(not visible to you)"

_OBJECT_KEY: Final = re.compile(
    r"(?<![\w./-])(?:[A-Z]\w*/)?"  # the kind, as in Deployment/shop/web
    r"(?P<namespace>[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)/[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?(?![\w/-])"
)
"""`namespace/name` in a sentence. Keys of labels have dots before the slash, which namespaces can't have."""
_RATIO: Final = re.compile(r"\d+/\d+")

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

    def visible_text(self, text: str) -> str:
        """Return a sentence about something visible without the names of objects that are not.

        Whether a namespace exists makes no difference: otherwise viewers could find out by their own texts.
        """
        if self.sees_all:
            return text

        def visible(found: re.Match[str]) -> str:
            is_shown = self.sees(found["namespace"]) or _RATIO.fullmatch(found[0])
            return found[0] if is_shown else HIDDEN_NAME

        return _OBJECT_KEY.sub(visible, text)


EVERYTHING_VISIBLE: Final = Visibility(nodes=True, namespaces=None)


@dataclass(frozen=True, slots=True)
class Viewer:
    """One authenticated user, as of the last check of their permissions."""

    name: str
    visibility: Visibility
    actions: Mapping[str, bool] = field(default_factory=dict)
    """Whether each kind of action is allowed somewhere; empty if the viewer can only look."""

    def may(self, action: str) -> bool:
        return self.actions.get(action, False)
