"""Events and faults of a scenario happen at their time, as if an operator or a failure caused them."""

from datetime import timedelta
from pathlib import Path

import pytest

from kubesim.scenario import load_scenario
from kubesim.scenario.scenario_events import ACTIONS, ScenarioEvent


def scenario(*events, **more):
    web = {"name": "web", "namespace": "shop", "replicas": 4} | more.pop("web", {})
    return load_scenario(
        {"pools": [{"name": "w", "count": 3}], "workloads": [web], "events": list(events), "seed": 3, **more}
    )


@pytest.fixture
def happen(run_scenario):
    """Runs the cluster with these events for some minutes and shows how it is then."""

    def run(*events, minutes=5, **more):
        return run_scenario(scenario(*events, **more), minutes * 60)

    return run


def test_nodes_are_cordoned_and_uncordoned(happen):
    run = happen({"at": "1m", "cordon": ["w-1", "w-2"]}, {"at": "2m", "uncordon": "w-2"})
    assert [run.node(f"w-{n}")["spec"].get("unschedulable") for n in (1, 2, 3)] == [True, None, None]
    assert [(h.at, h.what, h.refusals) for h in run.events] == [
        (timedelta(minutes=1), "cordon w-1, w-2", []),
        (timedelta(minutes=2), "uncordon w-2", []),
    ]


def test_names_may_have_wildcards(happen):
    run = happen({"cordon": "w-*"})
    assert all(node["spec"]["unschedulable"] for node in run.objects("v1", "Node"))


def test_objects_are_labelled_annotated_and_patched(happen):
    run = happen(
        {"label": {"what": "Node/w-1", "set": {"disk": "fast", "pool": None}}},
        {"annotate": {"what": "Deployment/shop/web", "set": {"note": True}}},
        {
            "patch": {
                "what": "Node/w-2",
                "patch": {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}},
            }
        },
    )
    labels = run.node("w-1")["metadata"]["labels"]
    assert (labels["disk"], "pool" in labels) == ("fast", False)
    (web,) = run.objects("apps/v1", "Deployment")
    assert web["metadata"]["annotations"]["note"] == "true"
    assert run.node("w-2")["spec"]["taints"] == [{"key": "a", "effect": "NoSchedule"}]


def test_a_workload_is_scaled_and_rolled_out(happen):
    run = happen(
        {"at": "1m", "scale": {"what": "Deployment/shop/web", "replicas": 7}},
        {"at": "2m", "rollOut": {"what": "Deployment/shop/web", "image": "web:2"}},
    )
    images = [pod["spec"]["containers"][0]["image"] for pod in run.pods("web")]
    assert images == ["web:2"] * 7


def test_so_many_pods_are_deleted_by_chance_and_replaced(happen):
    before = {pod["metadata"]["name"] for pod in happen().pods("web")}
    run = happen({"at": "1m", "delete": {"what": "Pod/shop/web-*", "count": 3}})
    after = {pod["metadata"]["name"] for pod in run.pods("web")}
    assert (len(after), len(before & after)) == (4, 1)


def test_another_seed_chooses_others(happen):
    def survivors(seed):
        run = happen({"delete": {"what": "Node/w-*", "count": 1}}, seed=seed)
        return tuple(node["metadata"]["name"] for node in run.objects("v1", "Node"))

    assert len({survivors(seed) for seed in range(6)}) > 1
    assert survivors(1) == survivors(1)


def test_budgets_may_refuse_an_eviction_and_the_scenario_goes_on(happen):
    run = happen(
        {"at": "1m", "evict": "Pod/shop/web-*"},
        {"at": "2m", "cordon": "w-1"},
        web={"budget": {"maxUnavailable": 1}},
    )
    evicted, cordoned = run.events
    assert len(evicted.refusals) == 3
    assert all("violate the pod's disruption budget" in refusal for refusal in evicted.refusals)
    assert cordoned.refusals == []


def test_what_is_not_there_is_refused_in_the_api_servers_words(happen):
    run = happen(
        {"scale": {"what": "Deployment/shop/none", "replicas": 1}},
        {"delete": "Gadget/shop/none"},
        {"delete": "Pod/shop/none-*"},
    )
    assert [h.refusals for h in run.events] == [
        ['none: deployments.apps "none" not found'],
        ['the server doesn\'t have a resource type "Gadget"'],
        [],
    ]


def test_objects_are_applied(happen):
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s", "namespace": "shop"}}
    run = happen(
        {"apply": settings | {"data": {"a": "1"}}}, {"at": "1m", "apply": settings | {"data": {"a": "2"}}}
    )
    (found,) = run.objects("v1", "ConfigMap", "shop")
    assert found["data"] == {"a": "2"}
    assert [h.what for h in run.events] == ["apply ConfigMap/s"] * 2


def test_a_killed_node_is_lost_and_its_pods_are_evicted_until_it_is_back(happen):
    kill = {"at": "1m", "kill": "w-1"}

    def ready(run):
        conditions = run.node("w-1")["status"]["conditions"]
        return next(each["status"] for each in conditions if each["type"] == "Ready")

    at_first = happen(kill, minutes=1.5)
    assert ready(at_first) == "True", "its heartbeats are not overdue yet"
    lost = happen(kill, minutes=3)
    assert ready(lost) == "Unknown"
    assert {taint["key"] for taint in lost.node("w-1")["spec"]["taints"]} == {
        "node.kubernetes.io/unreachable"
    }
    evicted = happen(kill, minutes=9)
    leaving = [pod for pod in evicted.pods("web") if "deletionTimestamp" in pod["metadata"]]
    assert leaving, "no kubelet is there that could end them"
    assert {pod["spec"]["nodeName"] for pod in leaving} == {"w-1"}
    back = happen(kill, {"at": "9m", "revive": "w-1"}, minutes=11)
    assert ready(back) == "True"
    assert not back.node("w-1")["spec"].get("taints")
    assert len(back.pods("web")) == 4


def test_faults_come_and_go(happen):
    run = happen(
        {"at": "1m", "fault": {"kind": "unavailable", "lasts": "1m", "resource": "nodes"}},
        {"at": "90s", "cordon": "w-1"},
        {"at": "3m", "cordon": "w-2"},
    )
    assert "unable to handle the request" in run.events[1].refusals[0]
    assert run.events[2].refusals == []


def test_faults_of_the_scenario_have_times_of_their_own(happen):
    run = happen({"at": "1m", "cordon": "w-1"}, faults=[{"at": "30s", "kind": "conflict", "times": 1}])
    assert [h.what for h in run.events] == ["fault conflict", "cordon w-1"]
    assert "please apply your changes to the latest version" in run.events[1].refusals[0]


def test_behaviour_changes_usage_and_failures_of_pods_that_run(run_scenario):
    rules = {
        "pods": [
            {
                "match": {"labels": {"app": "web"}},
                "usage": {"cpu": "900m"},
                "run": {"lasts": "1s", "exitCode": 1},
            }
        ]
    }
    seen = []

    async def look(run):
        pod = run.pods("web")[0]
        seen.append(run.server.usage.pod_metrics(pod))

    before = run_scenario(scenario(), 60, look=look)
    after = run_scenario(scenario({"at": "30s", "behaviour": rules}), 300, look=look)
    assert before.pods("web")[0]["status"]["containerStatuses"][0]["restartCount"] == 0
    assert after.pods("web")[0]["status"]["containerStatuses"][0]["restartCount"] > 0
    assert seen[0]["containers"][0]["usage"]["cpu"] == "50000000n"


def test_an_autoscaler_follows_the_usage(happen):
    autoscaler = {
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 2, "maxReplicas": 9,
            "metrics": [{"type": "Resource", "resource": {
                "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}],
        },
    }  # fmt: skip
    busy = {"pods": [{"match": {"labels": {"app": "web"}}, "usage": {"cpu": "100%"}}]}
    assert len(happen(objects=[autoscaler]).pods("web")) == 4, "half of the request, as wanted"
    assert len(happen({"behaviour": busy}, objects=[autoscaler]).pods("web")) > 4


def test_an_event_may_come_again_and_again(happen):
    run = happen({"every": "1m", "until": "3m", "label": {"what": "Node/w-1", "set": {"a": "b"}}})
    assert [h.at for h in run.events] == [timedelta(minutes=n) for n in (1, 2, 3)]


def test_events_of_the_same_moment_keep_the_files_order(happen):
    events = [{"at": "1m", "label": {"what": "Node/w-1", "set": {"a": str(n)}}} for n in range(9)]
    assert happen(*events).node("w-1")["metadata"]["labels"]["a"] == "8"


@pytest.mark.parametrize(
    ("event", "first"),
    [
        ({}, [0]),
        ({"at": "5s"}, [5]),
        ({"every": "2s"}, [2, 4, 6]),
        ({"at": "0s", "every": "2s", "until": "4s"}, [0, 2, 4]),
    ],
)
def test_when_an_event_happens(event, first):
    times = ScenarioEvent.model_validate({"cordon": "a", **event}).times()
    assert [moment.total_seconds() for moment, _ in zip(times, range(3), strict=False)] == first


def test_every_action_is_tested_here():
    text = Path(__file__).read_text()
    shown = {ScenarioEvent.model_fields[name].alias for name in ACTIONS}
    assert {name for name in shown if f'"{name}": ' not in text} == set()
