"""What is read of a pod that others ask about: only what steering needs; the rest may be as it likes."""

from typing import Any, Final

import msgspec

__all__ = ["PREFERRED", "REQUIRED", "Affinity", "AskedPod", "Metadata", "Required"]

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


class Term(msgspec.Struct, rename="camel"):
    match_expressions: list[Any] | None = None
    match_fields: list[Any] | None = None


class Required(msgspec.Struct, rename="camel"):
    node_selector_terms: list[Term] | None = None


class NodeAffinity(msgspec.Struct, rename={"required": REQUIRED, "preferred": PREFERRED}):
    required: Required | None = None
    preferred: list[Any] | None = None


class Affinity(msgspec.Struct, rename="camel"):
    node_affinity: NodeAffinity | None = None


class Spec(msgspec.Struct, rename="camel"):
    node_name: str | None = None
    affinity: Affinity | None = None


class Owner(msgspec.Struct):
    uid: str = ""
    controller: bool | None = None


class Metadata(msgspec.Struct, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    generate_name: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[Owner] | None = None

    @property
    def controller(self) -> Owner | None:
        return next((owner for owner in self.owner_references or () if owner.controller), None)


class AskedPod(msgspec.Struct):
    metadata: Metadata
    spec: Spec
