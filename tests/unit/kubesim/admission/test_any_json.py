"""Any JSON gives an object or a refusal, and complete objects stay unchanged."""

import contextlib
import copy
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubesim.apiserver.status_errors import StatusError

BASES = yaml.safe_load((Path(__file__).parent / "seen" / "bases.yaml").read_text("utf-8"))
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-5, 70_000)
    | st.sampled_from(["", "a", "A b", "1", "-1Gi", "50%"])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=5,
)
ANY_TIME = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def places(value, path=()):
    yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, key))


@st.composite
def damaged(draw, bases):
    """An object with some of its values replaced by others."""
    obj = copy.deepcopy(bases[draw(st.sampled_from(sorted(bases)))])
    for _ in range(draw(st.integers(0, 3))):
        *path, last = draw(
            st.sampled_from([place for place in places(obj) if place not in ((), ("kind",), ("apiVersion",))])
        )
        at = obj
        for step in path:
            at = at[step]
        at[last] = draw(VALUES)
    return obj


@pytest.fixture(scope="module")
def completed():
    """Every base with all its defaults: more fields to damage."""
    return {}


@ANY_TIME
@given(damaged(BASES))
def test_a_damaged_object_is_accepted_or_refused_but_breaks_nothing(admit, obj):
    try:
        stored = admit(obj)
    except StatusError:
        return
    assert admit(stored) == stored


@ANY_TIME
@given(st.data())
def test_so_is_a_damaged_update(admit, completed, data):
    if not completed:
        completed.update({name: admit(obj) for name, obj in BASES.items()})
    wanted = data.draw(damaged(completed))
    old = completed[wanted["kind"]]
    for subresource in ("", "status"):
        with contextlib.suppress(StatusError):
            admit(wanted, old, lookup=lambda *_: old, subresource=subresource)
