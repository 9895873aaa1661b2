"""The admission chain of the simulated API server, without the rest of it."""

import copy
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesim.admission import object_defaults
from kubesim.admission.admission_lookup import Lookup
from kubesim.admission.validation import object_validation
from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.kind_registry import KindRegistry
from kubesim.apiserver.status_errors import invalid
from tests.objects import empty_lookup

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KINDS = KindRegistry()
BASES: dict[str, Object] = yaml.safe_load((Path(__file__).parent / "seen" / "bases.yaml").read_text("utf-8"))


@pytest.fixture
def kinds() -> KindRegistry:
    return KINDS


@pytest.fixture
def base() -> Callable[..., Object]:
    """An object that is accepted, with changes by dotted path; None takes a field away."""

    def changed(kind: str | Object, changes: dict[str, Any] | None = None) -> Object:
        obj = copy.deepcopy(BASES[kind] if isinstance(kind, str) else kind)
        for path, value in (changes or {}).items():
            *steps, last = path.split(".")
            at: Any = obj
            for step in steps:
                at = at[int(step)] if isinstance(at, list) else at.setdefault(step, {})
            if isinstance(at, list):
                at[int(last)] = value
            elif value is None:
                at.pop(last, None)
            else:
                at[last] = copy.deepcopy(value)
        return obj

    return changed


@pytest.fixture
def admit() -> Callable[..., Object]:
    """Return what is stored of what a client sent; raise `Failure`."""

    def admitted(
        obj: Object, old: Object | None = None, lookup: Lookup = empty_lookup, subresource: str = ""
    ) -> Object:
        kind = KINDS.named(obj["apiVersion"], obj["kind"])
        assert kind is not None
        obj = copy.deepcopy(obj)
        if old is None and isinstance(obj.get("metadata"), dict):
            obj["metadata"].setdefault("uid", "u-1")
        new = object_defaults.apply_defaults(
            kind, obj, "UPDATE" if old else "CREATE", now=NOW, lookup=lookup, subresource=subresource
        )
        if faults := object_validation.validate_object(
            kind, new, old, lookup=lookup, subresource=subresource
        ):
            raise invalid(kind, new["metadata"].get("name", ""), faults)
        return new

    return admitted
