"""Scheduler extenders: which requests they get, and how their responses are used."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kubesim import ApiServer
from kubesim.scheduler import Extender, Scheduler
from kubesim.virtual_time import LoopClock, run_virtual
from tests.unit.kubesim.scheduler.conftest import node, pod

Object = dict[str, Any]

NODES = (node("n1"), node("n2"), node("n3", taints=[{"key": "a", "effect": "NoSchedule"}]))


class Asked:
    """Answers as set, and records the requests."""

    def __init__(self, answer: Callable[[str, Object], Any]) -> None:
        self.questions: list[tuple[str, Object]] = []
        self._answer = answer

    async def __call__(self, verb: str, arguments: Object) -> Any:
        self.questions.append((verb, arguments))
        await asyncio.sleep(0.05)
        return self._answer(verb, arguments)


def only(*names: str) -> Callable[[str, Object], Any]:
    def answer(_: str, asked: Object) -> Object:
        refused = {name: "not with me" for name in asked["NodeNames"] if name not in names}
        return {"NodeNames": [n for n in asked["NodeNames"] if n in names], "FailedNodes": refused}

    return answer


def broken(_: str, __: Object) -> Any:
    raise OSError("no answer")


def placed(*extenders: Extender, asking: Object | None = None) -> Object:
    """The pod, ten seconds after it was created."""

    async def live() -> Object:
        server = ApiServer(clock=LoopClock(), seed=1)
        server.load([*NODES, asking or pod("web")])
        Scheduler(server.cluster, extenders=extenders)
        await asyncio.sleep(10)
        found = server.store.find(server.cluster.kind("v1", "Pod"), "default", "web")
        assert found is not None
        return found.object

    return run_virtual(live())


def message(of: Object) -> str:
    return next(item["message"] for item in of["status"]["conditions"] if item["type"] == "PodScheduled")


def test_an_extender_is_asked_about_nodes_that_fit_and_may_refuse_some() -> None:
    asked = Asked(only("n2"))
    found = placed(Extender("e", asked, filter_verb="filter", node_cache_capable=True))
    assert found["spec"]["nodeName"] == "n2"
    ((verb, arguments),) = asked.questions
    assert verb == "filter"
    assert arguments["Pod"]["metadata"]["name"] == "web"
    assert (arguments["NodeNames"], arguments["Nodes"]) == (["n1", "n2"], None)


def test_its_words_join_the_message() -> None:
    extender = Extender("e", Asked(only()), filter_verb="filter", node_cache_capable=True)
    assert message(placed(extender)).startswith(
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 not with me."
    )


def test_one_without_a_cache_is_given_the_nodes_themselves() -> None:
    def first(_: str, asked: Object) -> Object:
        return {"nodes": {"items": asked["Nodes"]["items"][:1]}}

    asked = Asked(first)
    assert placed(Extender("e", asked, filter_verb="filter"))["spec"]["nodeName"] == "n1"
    assert [item["metadata"]["name"] for item in asked.questions[0][1]["Nodes"]["items"]] == ["n1", "n2"]


def test_one_extender_after_the_other() -> None:
    second = Asked(only("n1", "n2"))
    first = Extender("a", Asked(only("n2")), filter_verb="filter", node_cache_capable=True)
    then = Extender("b", second, filter_verb="filter", node_cache_capable=True)
    assert placed(first, then)["spec"]["nodeName"] == "n2"
    assert second.questions[0][1]["NodeNames"] == ["n2"]


def test_scores_are_added() -> None:
    def prefers(_: str, __: Object) -> Any:
        return [{"Host": "n1", "Score": 0}, {"Host": "n2", "Score": 10}]

    extender = Extender("e", Asked(prefers), prioritize_verb="prioritize", node_cache_capable=True)
    assert placed(extender)["spec"]["nodeName"] == "n2"


def test_one_that_fails_stops_the_pod_unless_it_is_ignorable() -> None:
    found = placed(Extender("e", Asked(broken), filter_verb="filter"))
    assert "nodeName" not in found["spec"]
    assert found["status"]["conditions"][0]["reason"] == "SchedulerError"
    assert message(found) == "no answer"
    assert placed(Extender("e", Asked(broken), filter_verb="filter", ignorable=True))["spec"]["nodeName"]


def test_failing_to_score_blocks_no_pod() -> None:
    assert placed(Extender("e", Asked(broken), prioritize_verb="p"))["spec"]["nodeName"] == "n1"


def test_a_node_that_was_not_asked_about_is_no_answer() -> None:
    def makes_up(_: str, __: Object) -> Object:
        return {"NodeNames": ["n9"]}

    extender = Extender("e", Asked(makes_up), filter_verb="filter", node_cache_capable=True)
    assert 'claims a filtered node "n9"' in message(placed(extender))


@pytest.mark.parametrize(
    ("resource", "asked_for"),
    [
        pytest.param("example.com/gpu", 1, id="asked about its resource"),
        pytest.param("cpu", 0, id="not about others"),
    ],
)
def test_one_that_manages_resources_is_asked_only_about_them(resource: str, asked_for: int) -> None:
    asking = pod("web")
    asking["spec"]["containers"][0]["resources"] = {"limits": {resource: "1"}}
    asked = Asked(only("n1"))
    managed = frozenset({"example.com/gpu"})
    placed(
        Extender("e", asked, filter_verb="f", node_cache_capable=True, managed_resources=managed),
        asking=asking,
    )
    assert len(asked.questions) == asked_for


def test_whatever_happens_may_change_an_extenders_mind() -> None:
    willing: list[str] = []

    async def live() -> str:
        server = ApiServer(clock=LoopClock(), seed=1)
        pods = server.cluster.kind("v1", "Pod")

        def as_willing(verb: str, arguments: Object) -> Any:
            return only(*willing)(verb, arguments)

        asked = Asked(as_willing)
        server.load([*NODES, pod("web"), pod("other", on="n1")])
        Scheduler(server.cluster, extenders=[Extender("e", asked, filter_verb="f", node_cache_capable=True)])
        await asyncio.sleep(10)
        willing.append("n2")
        other = server.store.find(pods, "default", "other")
        assert other is not None
        server.store.remove(pods, other)
        await asyncio.sleep(10)
        found = server.store.find(pods, "default", "web")
        assert found is not None
        return found.fields["spec.nodeName"]

    assert run_virtual(live()) == "n2"


def test_what_happens_while_an_extender_thinks_is_not_missed() -> None:
    async def live() -> str:
        server = ApiServer(clock=LoopClock(), seed=1)
        pods = server.cluster.kind("v1", "Pod")

        def refuse_once(verb: str, arguments: Object) -> Any:
            names = ("n1", "n2") if len(asked.questions) > 1 else ()
            if not names:
                server.load([pod("newcomer", on="n1")])
            return only(*names)(verb, arguments)

        asked = Asked(refuse_once)
        server.load([*NODES, pod("web")])
        Scheduler(server.cluster, extenders=[Extender("e", asked, filter_verb="f", node_cache_capable=True)])
        await asyncio.sleep(10)
        found = server.store.find(pods, "default", "web")
        assert found is not None
        return found.fields["spec.nodeName"]

    assert run_virtual(live())


def test_a_promised_node_that_an_extender_refuses_is_not_the_end() -> None:
    promised = pod("web")
    promised["status"]["nominatedNodeName"] = "n1"
    extender = Extender("e", Asked(only("n2")), filter_verb="filter", node_cache_capable=True)
    assert placed(extender, asking=promised)["spec"]["nodeName"] == "n2"
