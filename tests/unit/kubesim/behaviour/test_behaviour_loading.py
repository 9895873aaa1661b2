"""Behaviour is loaded completely, or refused with all its errors."""

from datetime import timedelta
from typing import Any

import pytest
import yaml

from kubesim.behaviour import Behaviour, BehaviourError, behaviour_rules, load_behaviour, of_node
from kubesim.behaviour.rule_matching import of_container

EXAMPLE = "".join(
    line.removeprefix("    ")
    for line in (behaviour_rules.__doc__ or "").splitlines(keepends=True)
    if line.startswith("    ")
)
POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "shop", "labels": {"app": "web", "tier": "front"}},
    "spec": {"nodeName": "worker-1", "containers": []},
}


def container(image: str = "r/web:1", name: str = "main") -> dict[str, Any]:
    return {"name": name, "image": image}


def test_the_example_in_the_documentation_loads() -> None:
    behaviour = load_behaviour(yaml.safe_load(EXAMPLE))
    assert behaviour.seed == 7
    assert behaviour.pods[1].run is not None
    assert behaviour.pods[1].run.times == 4


def test_nothing_is_a_behaviour_too() -> None:
    assert load_behaviour(None) == Behaviour() == load_behaviour({})


def test_all_mistakes_are_reported_at_once_with_their_paths() -> None:
    wrong = {
        "pods": [
            {"match": {"nam": "x"}, "startup": 5, "run": {"exitCode": 300}},
            {"readiness": "soon", "blocked": "Bored", "usage": {"cpu": {"mean": "1", "swing": "x%"}}},
        ],
        "nodes": [{"dead": {"after": "5m", "until": "1m"}, "slow": 0}, {"dead": [{}, {"until": "-1s"}]}],
        "podz": [],
    }
    with pytest.raises(BehaviourError) as refused:
        load_behaviour(wrong)
    paths = {problem.partition(": ")[0] for problem in refused.value.problems}
    assert paths == {
        "pods[0].match.nam",
        "pods[0].startup",
        "pods[0].run.exitCode",
        "pods[1].readiness",
        "pods[1].blocked",
        "pods[1].usage.cpu.swing",
        "pods[1].usage.cpu.every",
        "nodes[0].dead",
        "nodes[0].slow",
        "nodes[1].dead[1].until",
        "podz",
    }
    assert "pods[0].run.exitCode: 300: must be less than or equal to 255" in refused.value.problems


@pytest.mark.parametrize("content", [[], "pods", 7])
def test_what_is_no_mapping_is_refused(content: object) -> None:
    with pytest.raises(BehaviourError, match="must be a mapping"):
        load_behaviour(content)


def test_each_aspect_comes_from_the_first_rule_that_mentions_it() -> None:
    rules = [
        {"match": {"image": "r/web:*"}, "startup": "9s"},
        {"match": {"labels": {"app": "web"}}, "startup": "5s", "readiness": "7s"},
        {"termination": "3s"},
    ]
    how = of_container(load_behaviour({"pods": rules}), POD, container())
    times = (how.startup, how.readiness.after, how.termination)
    assert [time.total_seconds() for time in times if time] == [9, 7, 3]


@pytest.mark.parametrize(
    ("match", "hit"),
    [
        pytest.param({}, True, id="no condition matches everything"),
        pytest.param({"namespace": "shop", "node": "worker-?"}, True, id="wildcards match"),
        pytest.param({"namespace": "shop", "node": "other"}, False, id="all conditions must hold"),
        pytest.param({"labels": {"tier": "*"}}, True, id="a label that must be there, with any value"),
        pytest.param({"labels": {"zone": "*"}}, False, id="a label that is missing"),
        pytest.param({"container": "side"}, False, id="another container"),
        pytest.param({"image": "r/web"}, False, id="an image is named with its tag"),
    ],
)
def test_a_rule_matches_by_all_that_it_names(match: dict[str, Any], hit: bool) -> None:
    behaviour = load_behaviour({"pods": [{"match": match, "startup": "42s"}]})
    assert (of_container(behaviour, POD, container()).startup == timedelta(seconds=42)) is hit


def test_a_node_is_dead_in_its_outages() -> None:
    outages = [{"after": "10s", "until": "20s"}, {"after": "1m"}]
    node = of_node(load_behaviour({"nodes": [{"match": {"name": "n*"}, "dead": outages}]}), "n1", {})
    moments = [timedelta(seconds=second) for second in (0, 10, 19, 20, 59, 60, 9999)]
    assert [node.dead(moment) for moment in moments] == [False, True, True, False, False, True, True]
    changes = [node.next_change(moment) for moment in moments]
    assert [change and change.total_seconds() for change in changes] == [10, 20, 20, 60, 60, None, None]


def test_a_node_may_be_dead_from_the_start() -> None:
    node = of_node(
        load_behaviour({"nodes": [{"match": {"labels": {"pool": "b"}}, "dead": "always"}]}),
        "n",
        {"pool": "b"},
    )
    assert node.dead(timedelta(0))
