"""The cache that takes single changes equals a newly built one."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubesim.scheduler.node_filtering import prepare
from kubesim.scheduler.node_info import PodInfo
from kubesim.scheduler.scheduler_cache import SchedulerCache
from tests.unit.kubesim.scheduler.conftest import node, pod, required

Object = dict[str, Any]

HOST = "kubernetes.io/hostname"
NODES = ("n1", "n2", "n3")


def term(app: str) -> Object:
    return {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}


def spread(app: str) -> Object:
    selector = {"matchLabels": {"app": app}}
    return {
        "topologyKey": HOST,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
    }


apps = st.sampled_from(("web", "db"))


@st.composite
def residents(draw: st.DrawFn) -> Object:
    made = pod(
        draw(st.sampled_from(("a", "b", "c"))),
        on=draw(st.sampled_from((*NODES, "gone"))),
        cpu=draw(st.sampled_from(("", "1", "3"))),
        labels={"app": draw(apps)},
    )
    if draw(st.booleans()):
        made["spec"]["affinity"] = required("podAntiAffinity", term(draw(apps)))
    if draw(st.booleans()):
        made["spec"]["containers"][0]["ports"] = [{"hostPort": 80}]
    if draw(st.booleans()):
        made["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    if draw(st.booleans()):
        owner = {"uid": draw(st.sampled_from(("one", "other"))), "controller": draw(st.booleans())}
        made["metadata"]["ownerReferences"] = [owner]
    if draw(st.booleans()):
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if draw(st.booleans()):
        made["status"] = {"phase": "Succeeded"}
    return made


changes = st.one_of(
    st.tuples(st.just("put"), residents()),
    st.tuples(st.just("drop"), residents()),
    st.tuples(st.just("put"), st.sampled_from(NODES).map(lambda name: node(name, cpu="4"))),
    st.tuples(st.just("put"), st.sampled_from(NODES).map(lambda name: node(name, cpu="2", zone="east"))),
    st.tuples(st.just("drop"), st.sampled_from(NODES).map(node)),
)
CLAIM = {
    "kind": "PersistentVolumeClaim",
    "metadata": {
        "name": "data",
        "namespace": "default",
        "annotations": {"pv.kubernetes.io/bind-completed": ""},
    },
    "spec": {"volumeName": "v", "accessModes": ["ReadWriteOncePod"]},
}
VOLUME = {"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {}}


def questions() -> list[PodInfo]:
    asking = [
        pod(cpu="2", labels={"app": "web"}),
        pod(labels={"app": "web"}, affinity=required("podAffinity", term("db"))),
        pod(labels={"app": "db"}, affinity=required("podAntiAffinity", term("web"))),
        pod(labels={"app": "web"}, topologySpreadConstraints=[spread("web")]),
        pod(containers=[{"name": "main", "image": "none", "ports": [{"hostPort": 80}]}]),
        pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]),
    ]
    return [PodInfo(each) for each in asking]


def answers(view: SchedulerCache) -> list[Any]:
    found = []
    for asking in questions():
        prepared = prepare(asking, view)
        found.append([(name, list(prepared.refusals(view.nodes[name]))) for name in sorted(view.nodes)])
    return found


@settings(max_examples=60)
@given(st.lists(changes, max_size=12))
def test_changes_one_by_one_give_the_same_answers_as_all_at_once(happened: list[tuple[str, Object]]) -> None:
    kept = SchedulerCache.of([CLAIM, VOLUME])
    there: dict[tuple[str, str], Object] = {}
    for what, item in happened:
        key = (item["kind"], item["metadata"]["name"])
        if what == "put":
            kept.put(item["kind"], item)
            there[key] = item
        else:
            kept.drop(item["kind"], item)
            there.pop(key, None)
        answers(kept)  # so that what is counted once is there to go wrong
    assert answers(kept) == answers(SchedulerCache.of([CLAIM, VOLUME, *there.values()]))


@settings(max_examples=40)
@given(st.lists(residents(), max_size=6))
def test_pretending_leaves_no_trace(placed: list[Object]) -> None:
    view = SchedulerCache.of([*(node(name) for name in NODES), CLAIM, VOLUME, *placed])
    before = answers(view)
    all_pods = [each for there in view.nodes.values() for each in there.pods.values()]
    with view.without(all_pods):
        assert all(not there.pods for there in view.nodes.values())
        answers(view)
    with view.with_also([PodInfo(pod("promised", cpu="4"))], view.nodes["n1"]):
        answers(view)
    assert answers(view) == before
