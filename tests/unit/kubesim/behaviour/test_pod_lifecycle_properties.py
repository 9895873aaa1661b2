"""Properties that hold for every pod, for any behaviour at any time."""

from datetime import timedelta
from itertools import pairwise
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kubesim.behaviour import advance

ORDER = {"": 0, "Pending": 1, "Running": 2, "Succeeded": 3, "Failed": 3}

seconds = st.sampled_from([f"{each}s" for each in ("0", "0.3", "1", "2.5", "7", "45")])
runs = st.fixed_dictionaries(
    {}, optional={"lasts": seconds, "exitCode": st.sampled_from([0, 1]), "times": st.integers(1, 3)}
)
readiness = st.one_of(
    seconds, st.just("never"), st.builds(lambda up: {"after": up, "ready": "4s", "unready": "2s"}, seconds)
)
blocked = st.one_of(
    st.sampled_from(["ErrImagePull", "ContainerCreating", "CreateContainerConfigError"]),
    st.just({"reason": "ErrImagePull", "heals": "20s"}),
)
aspects = st.fixed_dictionaries(
    {},
    optional={
        "startup": seconds,
        "readiness": readiness,
        "run": runs,
        "init": runs,
        "blocked": blocked,
        "termination": st.one_of(seconds, st.just("ignored")),
        "evicted": st.builds(lambda after: {"after": after}, seconds),
    },
)
specs = st.fixed_dictionaries(
    {"restartPolicy": st.sampled_from(["Always", "OnFailure", "Never"])},
    optional={
        "initContainers": st.lists(
            st.sampled_from([{"image": "i"}, {"image": "s", "restartPolicy": "Always"}]), max_size=2
        ).map(lambda each: [{"name": f"init-{place}", **item} for place, item in enumerate(each)])
    },
)
pauses = st.lists(st.floats(0, 90), max_size=12)


@given(aspects, specs, pauses, st.integers(0, 12))
@settings(max_examples=150, deadline=None)
# Readiness changes less than a millisecond after the last pause.
@example({"readiness": {"after": "1s", "ready": "4s", "unready": "2s"}}, {}, [1.05, 1.975, 16.9749], 5)
def test_a_life_only_goes_forward(
    life: Any, aspects: dict[str, Any], spec: dict[str, Any], pauses: list[float], deleted_after: int
) -> None:
    """Asked at any moments, late or early: phases, restarts, start times and conditions never go back."""
    pod = life(aspects, **spec)
    for place, pause in enumerate(pauses):
        pod.now += timedelta(seconds=pause)
        pod.settle()
        if pod.pod is None:
            break
        again = advance(pod.pod, pod.behaviour, pod.now, pod.host)
        assert (again.action, again.wake_at) == (None, pod.wake_at), "asking twice changes nothing"
        assert again.wake_at is None or again.wake_at > pod.now
        sooner = pod.now + (again.wake_at - pod.now) / 2 if again.wake_at else pod.now + timedelta(days=1)
        assert advance(pod.pod, pod.behaviour, sooner, pod.host).action is None, "nothing before the wake"
        if place == deleted_after:
            pod.delete(grace_s=30)
    for before, after in pairwise(pod.history):
        assert ORDER[before["phase"]] <= ORDER[after["phase"]]
        assert ORDER[before["phase"]] < 3, "a finished pod stays as it is"
        assert before["startTime"] == after["startTime"]
        for part in ("initContainerStatuses", "containerStatuses"):
            for old, new in zip(before.get(part, []), after.get(part, []), strict=True):
                assert 0 <= new["restartCount"] - old["restartCount"] <= 1
        since = {each["type"]: each["lastTransitionTime"] for each in before["conditions"]}
        for condition in after["conditions"]:
            assert since.get(condition["type"], "") <= condition["lastTransitionTime"]


@given(aspects, specs)
@settings(max_examples=100, deadline=None)
def test_every_deleted_pod_is_gone_after_its_grace_period(
    life: Any, aspects: dict[str, Any], spec: dict[str, Any]
) -> None:
    pod = life(aspects, **spec).after(15).delete(grace_s=20)
    assert pod.after(36).pod is None


@given(aspects, specs)
@settings(max_examples=100, deadline=None)
def test_a_life_without_endless_changes_comes_to_rest(
    life: Any, aspects: dict[str, Any], spec: dict[str, Any]
) -> None:
    restless = {"blocked", "readiness"} if isinstance(aspects.get("readiness"), dict) else {"blocked"}
    calm = {name: value for name, value in aspects.items() if name not in restless}
    for part in ("run", "init"):
        if calm.get(part, {}).get("lasts"):
            calm[part] = calm[part] | {"times": 2}
    pod = life(calm, **spec).after(3600)
    assert pod.wake_at is None
