"""A damaged file is read or refused with a message, never with a traceback."""

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubevalues.saved_cluster import UnreadableCluster
from rescheduler.cluster.sources.anonymizer import anonymize
from rescheduler.cluster.sources.cluster_export import export_of_file
from rescheduler.cluster.sources.cluster_kinds import snapshot_of
from rescheduler.cluster.sources.saved_source import read_saved
from rescheduler.config.policy import Policy
from rescheduler.planner.plan_builder import build_plan
from rescheduler.strategies.strategy_registry import strategies_of
from tests.unit.cluster.sources.rich_cluster import rich_objects, saved

CLUSTER = saved(rich_objects(), saved_at="2026-03-02T12:00:00Z")
RAW = json.dumps(CLUSTER).encode()
POLICY = Policy(
    enabled_strategies=("NodeMaintenance", "TopologySpread", "ResourceOptimization", "LoadBalancing")
)
STRANGE = [
    None, True, 0, -1, 10**30, 1.5, "", "x", "-5", "1e400", "9" * 400, "\x00",
    [], [None], [{}], [[]], ["x"], {}, {"": ""}, {"a": {}},
]  # fmt: skip
Path = tuple[str | int, ...]


def paths_in(value: Any, path: Path = ()) -> list[Path]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for step, part in parts for found in paths_in(part, (*path, step)))]


PATHS = paths_in(CLUSTER)[1:]


@st.composite
def mutated(draw: st.DrawFn) -> dict:
    content = copy.deepcopy(CLUSTER)
    for path in draw(st.lists(st.sampled_from(PATHS), min_size=1, max_size=3)):
        place: Any = content
        try:
            for step in path[:-1]:
                place = place[step]
            if draw(st.booleans()):
                place[path[-1]] = draw(st.sampled_from(STRANGE))
            else:
                del place[path[-1]]
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change has taken it away
    return content


def one_of_each_shape() -> list[Path]:
    """One path for each field of each kind: the second pod of the file tells nothing new."""
    found: dict[Path, Path] = {}
    for path in PATHS:
        kind = (CLUSTER["items"][path[1]]["kind"],) if path[0] == "items" and len(path) > 1 else ()
        shape = (*kind, *("*" if isinstance(step, int) else step for step in path))
        found.setdefault(shape, path)
    return list(found.values())


def use(raw: bytes) -> None:
    """Use it as `plan` and `snapshot --anonymize` do."""
    try:
        reading = read_saved(raw, source="c.json")
    except UnreadableCluster as refused:
        assert str(refused).startswith("c.json")  # noqa: PT017 - either way is fine
        return
    snapshot = snapshot_of(reading, POLICY)
    build_plan(snapshot, POLICY, strategies_of(POLICY))
    try:
        saving = export_of_file(raw, source="c.json")
    except UnreadableCluster:
        return
    anonymize(saving.objects)


@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(mutated())
def test_a_file_in_which_something_was_changed(content):
    use(json.dumps(content).encode())


@settings(max_examples=30, deadline=None)
@given(st.integers(0, len(RAW)), st.binary(max_size=3))
def test_a_file_that_was_cut_or_overwritten(place, garbage):
    use(RAW[:place] + garbage)
    use(RAW[:place] + garbage + RAW[place + len(garbage) :])


@pytest.mark.size
@pytest.mark.parametrize("strange", [*STRANGE, "left out"], ids=repr)
def test_a_file_with_something_strange_in_any_one_field(strange):
    for path in one_of_each_shape():
        content = copy.deepcopy(CLUSTER)
        place: Any = content
        for step in path[:-1]:
            place = place[step]
        if strange == "left out":
            del place[path[-1]]
        else:
            place[path[-1]] = strange
        try:
            use(json.dumps(content).encode())
        except Exception as error:
            error.add_note(f"with {strange!r} at {path}")
            raise


def test_a_null_where_a_key_or_an_object_is_needed_is_refused_by_its_path():
    """Both once ended `snapshot --anonymize` with an AttributeError."""
    without_key = {"matchExpressions": [{"key": None, "operator": "Exists"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [without_key]}}
    odd = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "odd", "namespace": "shop"},
        "spec": {"affinity": {"nodeAffinity": required}, "volumes": [None]},
    }
    content = CLUSTER | {"items": [*CLUSTER["items"], odd]}
    with pytest.raises(UnreadableCluster) as refused:
        export_of_file(json.dumps(content).encode(), source="c.json")
    assert "nodeSelectorTerms[0].matchExpressions[0].key: expected a string, got None" in str(refused.value)
    assert "Pod shop/odd: spec.volumes[0]: expected an object" in str(refused.value)
