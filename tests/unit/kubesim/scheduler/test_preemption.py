"""Which pods are preempted for a pod of higher priority, and what happens to both."""

from typing import Any

from tests.unit.kubesim.scheduler.conftest import Stage, node, pod

Object = dict[str, Any]


def victim(stage: Stage, name: str) -> bool:
    return "deletionTimestamp" in stage.get(name)["metadata"]


def budget(app: str, allowed: int) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }


def important(cpu: str = "3", name: str = "important", priority: int = 100, **more: Any) -> Object:
    return pod(name, cpu=cpu, priority=priority, **more)


def test_a_less_important_pod_makes_room(stage: Stage) -> None:
    stage.begin(node(), pod("lesser", on="n1", cpu="3"), important())
    assert victim(stage, "lesser")
    assert stage.get("important")["status"]["nominatedNodeName"] == "n1"
    assert stage.says("important") == (
        "0/1 nodes are available: 1 Insufficient cpu. "
        "preemption: found a potential placement for pod on node n1, preempting 1 victims"
    )
    condition = stage.get("lesser")["status"]["conditions"][0]
    assert (condition["type"], condition["reason"]) == ("DisruptionTarget", "PreemptionByScheduler")
    assert condition["message"] == "default-scheduler: preempting to accommodate a higher priority pod"
    assert ("Preempted", "Preempted by pod uid-of-important on node n1") in stage.events()
    stage.gone("lesser")
    assert stage.node_of("important") == "n1"


def test_equals_make_no_room(stage: Stage) -> None:
    stage.begin(node(), pod("equal", on="n1", cpu="3", priority=100), important())
    assert not victim(stage, "equal")


def test_as_few_as_can_be_and_the_more_important_ones_stay(stage: Stage) -> None:
    residents = [pod(f"p{priority}", on="n1", cpu="1", priority=priority) for priority in (1, 2, 3, 4)]
    stage.begin(node(), *residents, important(cpu="2"))
    assert [victim(stage, f"p{priority}") for priority in (1, 2, 3, 4)] == [True, True, False, False]


def test_where_the_least_important_would_go(stage: Stage) -> None:
    stage.begin(
        node("n1"),
        node("n2"),
        pod("b", on="n1", cpu="4", priority=50),
        pod("c", on="n2", cpu="4", priority=10),
        important(),
    )
    assert (victim(stage, "b"), victim(stage, "c")) == (False, True)


def test_where_no_budget_is_broken(stage: Stage) -> None:
    stage.begin(
        node("n1"),
        node("n2"),
        pod("guarded", on="n1", cpu="4", priority=1, labels={"app": "guarded"}),
        pod("free", on="n2", cpu="4", priority=50),
        budget("guarded", 0),
        important(),
    )
    assert (victim(stage, "guarded"), victim(stage, "free")) == (False, True)


def test_a_budget_is_broken_where_there_is_no_other_way(stage: Stage) -> None:
    guarded = pod("guarded", on="n1", cpu="4", labels={"app": "guarded"})
    stage.begin(node(), guarded, budget("guarded", 0), important())
    assert victim(stage, "guarded")


def test_while_its_victim_ends_a_pod_takes_no_other(stage: Stage) -> None:
    stage.begin(node(), pod("lesser", on="n1", cpu="3"), pod("other", on="n1", cpu="1"), important())
    stage.add(node("n2", taints=[{"key": "a", "effect": "NoSchedule"}]), wait_s=60)
    assert not victim(stage, "other")
    assert stage.says("important").endswith("not eligible due to a terminating pod on the nominated node.")


def test_the_room_that_was_made_is_kept_for_the_pod_it_was_made_for(stage: Stage) -> None:
    stage.begin(node(), pod("lesser", on="n1", cpu="4"), important(cpu="4"))
    stage.gone("lesser", wait_s=0.1)
    stage.add(pod("sneaky", cpu="1"), wait_s=0.5)
    assert not stage.node_of("sneaky"), "room is there, but promised"
    stage.clock.advance(5)
    assert (stage.node_of("important"), stage.node_of("sneaky")) == ("n1", "")


def test_a_still_more_important_pod_takes_the_promise(stage: Stage) -> None:
    stage.begin(node(), pod("lesser", on="n1", cpu="4"), important(cpu="4"))
    assert stage.get("important")["status"]["nominatedNodeName"] == "n1"
    stage.add(important(cpu="4", name="chief", priority=1000), wait_s=0.1)
    assert "nominatedNodeName" not in stage.get("important")["status"]
    stage.gone("lesser")
    assert (stage.node_of("chief"), stage.node_of("important")) == ("n1", "")


def test_a_port_can_be_made_free_as_well(stage: Stage) -> None:
    container = {"name": "main", "image": "none", "ports": [{"hostPort": 80}]}
    holder = pod("holder", on="n1", containers=[container])
    stage.begin(node(), holder, pod("other", on="n1"), pod("web", priority=9, containers=[container]))
    assert (victim(stage, "holder"), victim(stage, "other")) == (True, False)


def test_no_pod_is_preempted_where_that_would_not_help(stage: Stage) -> None:
    taint = {"key": "a", "effect": "NoSchedule"}
    stage.begin(node(taints=[taint]), pod("lesser", on="n1", cpu="4"), important())
    assert not victim(stage, "lesser")
