"""A workload, its namespace or the pod itself requests a shutdown delay for new pods."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.api.well_known_names import SCHEDULING_GATE, SHUTDOWN_DELAY_ANNOTATION
from rescheduler.steering.intents import IntentIndex, PartialOwnerReference
from rescheduler.steering.webhook.pod_mutation import MutationAnswer, answer_review
from tests.unit.steering.reviews import OWNER, book_of, patched, pod_of, review_of

Json = dict[str, Any]
NO_INTENTS = IntentIndex()


def asking(value: str | None) -> Mapping[str, str]:
    return {} if value is None else {SHUTDOWN_DELAY_ANNOTATION: value}


def reviewed(pod: Json, workload: str | None = None, namespace: str | None = None) -> MutationAnswer:
    def annotations(asked: str, controller: PartialOwnerReference | None) -> Iterator[Mapping[str, str]]:
        assert asked == "shop"
        if controller is not None and controller.uid == OWNER["uid"]:
            yield asking(workload)
        yield asking(namespace)

    return answer_review(review_of(pod), NO_INTENTS, annotations=annotations)


def web(*containers: Json, **spec: Any) -> Json:
    pod = pod_of()
    pod["spec"] |= {"containers": list(containers) or [{"name": "c", "image": "i"}], **spec}
    return pod


def sleeps(pod: Json) -> list[int | None]:
    """Return the delays by container; None without a preStop hook."""
    hooks = [(each.get("lifecycle") or {}).get("preStop") for each in pod["spec"]["containers"]]
    return [hook["sleep"]["seconds"] if hook else None for hook in hooks]


@pytest.mark.parametrize(
    ("pod", "workload", "namespace", "expected"),
    [
        pytest.param(None, None, None, None, id="not requested"),
        pytest.param(None, "5s", None, 5, id="the workload asks"),
        pytest.param(None, None, "7s", 7, id="the namespace asks"),
        pytest.param("3s", None, None, 3, id="the pod asks"),
        pytest.param("3s", "5s", "7s", 3, id="the pod comes before its workload"),
        pytest.param(None, "5s", "7s", 5, id="the workload comes before its namespace"),
        pytest.param(None, "0s", "7s", None, id="a workload declines what its namespace asks for"),
        pytest.param(None, "1500ms", None, 2, id="part of a second counts as one"),
    ],
)
def test_who_asks(pod: str | None, workload: str | None, namespace: str | None, expected: int | None) -> None:
    made = web()
    made["metadata"]["annotations"] = dict(asking(pod))
    assert sleeps(patched(made, reviewed(made, workload, namespace).body)) == [expected]


def test_only_containers_without_a_hook_get_one() -> None:
    own, started = {"preStop": {"exec": {"command": ["drain"]}}}, {"postStart": {"exec": {"command": ["x"]}}}
    pod = web({"name": "a"}, {"name": "b", "lifecycle": own}, {"name": "c", "lifecycle": started})
    found = patched(pod, reviewed(pod, "5s").body)["spec"]["containers"]
    assert [each["lifecycle"] for each in found] == [
        {"preStop": {"sleep": {"seconds": 5}}},
        own,
        {**started, "preStop": {"sleep": {"seconds": 5}}},
    ]


def test_a_pod_that_comes_again_is_not_changed_again() -> None:
    pod = web()
    once = patched(pod, reviewed(pod, "5s").body)
    assert patched(once, reviewed(once, "5s").body) == once


def test_a_copy_is_left_as_it_is() -> None:
    """It must be like its source pod, which the daemon sees to."""
    copy = web(schedulingGates=[{"name": SCHEDULING_GATE}])
    assert patched(copy, reviewed(copy, "5s").body) == copy


@pytest.mark.parametrize(
    ("asked", "grace_s", "why"),
    [
        pytest.param("soon", 30, "duration", id="no duration"),
        pytest.param("-5s", 30, "negative", id="a negative one"),
        pytest.param("30s", 30, "terminationGracePeriodSeconds (30)", id="as long as the grace period"),
        pytest.param("31s", None, "terminationGracePeriodSeconds (30)", id="longer than the default one"),
        pytest.param("1s", 0, "terminationGracePeriodSeconds (0)", id="no grace period"),
    ],
)
def test_what_cant_be_is_ignored_with_a_warning(asked: str, grace_s: int | None, why: str) -> None:
    """The API server would refuse the pod, or kill it while it sleeps; the creator sees the warning."""
    pod = web() if grace_s is None else web(terminationGracePeriodSeconds=grace_s)
    response = json.loads(reviewed(pod, asked).body)["response"]
    assert response["allowed"] is True
    assert "patch" not in response
    (warning,) = response["warnings"]
    assert warning.startswith(f"{SHUTDOWN_DELAY_ANNOTATION} is ignored: ")
    assert why in warning


def test_a_steered_pod_gets_both() -> None:
    pod = web()
    found = answer_review(
        review_of(pod), book_of("source", prefer="target"), annotations=lambda *_: iter([asking("5s")])
    )
    made = patched(pod, found.body)
    assert sleeps(made) == [5]
    assert "nodeAffinity" in made["spec"]["affinity"]


@given(st.text(max_size=20), st.one_of(st.none(), st.integers(-10, 100)))
def test_whatever_is_asked_the_api_server_would_take_the_pod(asked: str, grace_s: int | None) -> None:
    pod = web() if grace_s is None else web(terminationGracePeriodSeconds=grace_s)
    response = json.loads(reviewed(pod, asked).body)["response"]
    assert response["allowed"] is True
    if "patch" in response:
        response.pop("warnings", None)
        (seconds,) = sleeps(patched(pod, reviewed(pod, asked).body))
        assert seconds is not None
        assert 0 < seconds <= (30 if grace_s is None else grace_s)
