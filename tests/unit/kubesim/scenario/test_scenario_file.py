"""A scenario's file is accepted completely, or refused with all its errors."""

import msgspec
import pytest

from kubesim.apiserver.fault_injection import InjectedFault
from kubesim.scenario import ScenarioError, parse_scenario, read_scenario
from kubesim.scenario.scenario_file import UnreadableScenario, read_document
from kubesim.scenario.scenario_values import ScenarioFault

WRONG = b"""
nam: x
seed: -1
nodes: [{name: A, cpu: lots, zon: b}]
pools: [{name: worker, cont: 3, taints: [{key: a, effect: NoScedule}]}]
workloads:
- {name: web, kind: Deploymnt, on: {worker-1: x}, budget: {}}
- {name: web2, rplicas: 3, service: 99999}
objects: [{kind: Pod}]
faults: [{kind: bored, at: 5}]
behaviour: {pods: [{startup: 5, mtch: 3}]}
events:
- {at: 5m}
- {at: 5m, cordon: n, uncordon: [k]}
- {scale: {what: web, replicas: 3}}
- {delete: {what: Pod/a/b, cont: 1}}
"""


def problems(text: str) -> tuple[str, ...]:
    with pytest.raises(ScenarioError) as refused:
        parse_scenario(text.encode(), source="a.yaml")
    return refused.value.problems


def test_all_mistakes_are_reported_at_once_with_their_paths():
    with pytest.raises(ScenarioError) as refused:
        parse_scenario(WRONG, source="a.yaml")
    assert {problem.partition(": ")[0] for problem in refused.value.problems} == {
        "nam", "seed", "nodes[0].name", "nodes[0].cpu", "nodes[0].zon", "pools[0].count", "pools[0].cont",
        "pools[0].taints[0].effect", "workloads[0].kind", "workloads[0].on", "workloads[0].budget",
        "workloads[1].rplicas", "workloads[1].service", "objects[0]", "behaviour.pods[0].startup",
        "behaviour.pods[0].mtch", "faults[0].kind", "faults[0].at", "events[0]", "events[1]",
        "events[2].scale.what", "events[3].delete.cont",
    }  # fmt: skip
    assert str(refused.value).startswith("a.yaml: 22 errors\n  ")


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("nodes: [{name: a, zon: b}]", "nodes[0].zon: unknown field; there are cpu, labels, memory, name,"),
        ("nodes: [{name: A_}]",
         "nodes[0].name: 'A_': must be a name of lower-case letters, digits, - and .,"),
        ("nodes: [{name: a, cpu: x}]", "nodes[0].cpu: 'x': must be a quantity such as 4, 500m or 16Gi"),
        ("events: [{kill: x, at: 5}]", "events[0].at: 5: must be a duration such as 90s, 1h30m or 500ms"),
        ("events: [{}]", "must have one action, not 0 (none): cordon, uncordon, label, annotate,"),
        ("workloads: [{name: a, kind: CronJob}]", "workloads[0]: "),
        ("workloads: [{name: a, replicas: 1, on: [n, n]}]", "`on` names 2 nodes for 1 replicas"),
        ("workloads: [{kind: DaemonSet, name: a, replicas: 1}]", "`replicas` is not allowed for a DaemonSet"),
        ("pools: {name: a}", "pools: {'name': 'a'}: must be a list"),
        ("events: [{until: 5m, kill: x}]", "`until` needs `every`"),
        ("faults: [{kind: slow, probability: 2}]", "faults[0].probability: 2: must be less than or equal"),
        ("extenders: [{url: here, filter: f}]", "extenders[0].url: 'here': must be a URL such as http://"),
        ("extenders: [{url: 'http://x'}]", "must have `filter` or `prioritize`"),
        ("[]", "the file: []: must be a mapping"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_with_what_is_allowed(text, reported):
    (problem,) = problems(text)
    assert reported in problem


def test_the_parts_must_fit_together():
    text = """
    nodes: [{name: w-1}]
    pools: [{name: w, count: 2}]
    settle: 0s
    workloads: [{name: a, on: w-9}, {name: b, on: w-1}, {name: b}]
    events: [{kill: w-7}, {cordon: w-*}]
    """
    assert list(problems(text)) == [
        "nodes, pools: 'w-1': 2 nodes of this name",
        "workloads: Deployment default/b: given 2 times",
        "workloads[0].on: 'w-9': there is no such node; there are w-1, w-2",
        "workloads[0].on: needs a `settle` longer than 0s: otherwise there are no pods to place",
        "workloads[1].on: needs a `settle` longer than 0s: otherwise there are no pods to place",
        "events[0].kill: 'w-7': there is no such node",
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: [", "line 1: not YAML"),
        ("seed: 1\nseed: 2", "line 2: 'seed' is given twice"),
        ("nodes:\n- {name: a, name: b}", "line 2: 'name' is given twice"),
        ("a: !!python/object:os.system {}", "line 1: not YAML: could not determine a constructor"),
        ("\x00", "not YAML"),
        ("[" * 2000, "nested too deep"),
    ],
)
def test_what_has_no_structure_is_refused(text, why):
    assert why in problems(text)[0]


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ScenarioError, match=r"none\.yaml: 1 error\n.*No such file"):
        read_scenario(tmp_path / "none.yaml")


def test_yaml_holds_no_surprises():
    text = (
        b"{on: on, off: no, time: 12:30, date: 2026-01-01, octal: 010, yes: true, none: ~, empty: , n: 1.5}"
    )
    assert read_document(text) == {
        "on": "on", "off": "no", "time": "12:30", "date": "2026-01-01", "octal": "010", "yes": True,
        "none": None, "empty": None, "n": 1.5,
    }  # fmt: skip
    assert read_document(b"a: 0x10\nb: -3\nc: 1e3\nd: +.5") == {"a": "0x10", "b": -3, "c": 1000.0, "d": 0.5}


def test_a_file_may_not_be_endless():
    with pytest.raises(UnreadableScenario, match="at most"):
        read_document(b" " * 5_000_000)


def test_nothing_is_a_scenario_too():
    assert parse_scenario(b"", source="").machines() == []


def test_labels_and_prices_may_look_like_numbers():
    scenario = parse_scenario(
        b"pools: [{name: w, count: 1, price: 0.10, labels: {spot: true, n: 3}}]", source=""
    )
    (machine,) = scenario.machines()
    assert (machine.price, machine.labels) == ("0.1", {"pool": "w", "spot": "true", "n": "3"})


def test_places_may_be_counted_or_listed():
    text = b"""
    pools: [{name: w, count: 2}]
    workloads: [{name: a, on: {w-1: 2, w-2: 1}}, {name: b, on: [w-1, w-2]}, {name: c, on: w-2}, {name: d}]
    """
    workloads = parse_scenario(text, source="").workloads
    assert [each.on for each in workloads] == [("w-1", "w-1", "w-2"), ("w-1", "w-2"), ("w-2",), ()]
    assert [each.size for each in workloads] == [3, 2, 1, 1]


def test_a_scenario_has_words_for_every_aspect_of_a_fault():
    aspects = {field.removesuffix("_s") for field in InjectedFault.__struct_fields__}
    assert aspects - {"version"} <= set(ScenarioFault.model_fields)
    trouble = ScenarioFault.model_validate({"kind": "slow", "delay": "1500ms", "retryAfter": "1500ms"})
    assert msgspec.to_builtins(trouble.fault) | {"delayS": 1.5, "retryAfterS": 2} == msgspec.to_builtins(
        trouble.fault
    )
