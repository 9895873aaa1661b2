"""What the responder does about an Eviction (lifecycle.k8s.io); tests/e2e/lifecycle has the real server."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from rescheduler.api.podmigration import (
    Migration,
    MigrationPhase,
    MigrationSpec,
    MigrationStatus,
    PodReference,
)
from rescheduler.api.well_known_names import EVICTION_RESPONDER
from rescheduler.daemon.eviction_responder import CancelMove, ReportProgress, StartMove, next_response
from tests.building import pod_record
from tests.objects import pod_object

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
ALLOWED = timedelta(minutes=10)
POD = pod_record(pod_object("shop/web-1", on="a", uid="u1"))


def eviction(state="Active", uid="u1", **report):
    return {
        "metadata": {"namespace": "shop", "name": "e"},
        "spec": {"target": {"pod": {"name": "web-1", "uid": uid}}},
        "status": {
            "requesters": [
                {"name": "example.com/drain", "intent": "Eviction"},
                {"name": "example.com/other", "intent": "Withdrawn"},
            ],
            "targetResponders": [
                {"name": "example.com/first", "priority": 20000, "state": "Completed"},
                {"name": EVICTION_RESPONDER, "priority": 10000, "state": state},
            ],
            "responders": [{"name": EVICTION_RESPONDER, "startTime": "2026-03-02T11:59:00Z", **report}],
        },
    }


def migration(phase=MigrationPhase.IN_PROGRESS, **status):
    spec = MigrationSpec(pod=PodReference("web-1", "u1"), source_node="a", strategy="Eviction")
    return Migration(
        key="shop/eviction-u1",
        namespace="shop",
        name="eviction-u1",
        uid="m1",
        resource_version="1",
        generation=1,
        created=NOW,
        deleted=None,
        finalizers=(),
        spec=spec,
        status=MigrationStatus(phase=phase, **status),
    )


def response(item, pod=POD, moving=None):
    return next_response(item, pod, moving, NOW, ALLOWED)


def test_an_active_responder_starts_the_move_and_names_who_asked():
    found = response(eviction())
    assert isinstance(found, StartMove)
    assert (found.spec.strategy, found.spec.source_node) == ("Eviction", "a")
    assert found.spec.deadline == NOW + ALLOWED
    assert found.spec.reason == "eviction requested by example.com/drain"


@pytest.mark.parametrize("state", ["Inactive", "Interrupted", "Completed", "Canceled"])
def test_a_responder_that_is_not_active_starts_nothing(state):
    assert response(eviction(state)) is None


def test_an_eviction_that_names_other_responders_only_is_none_of_our_business():
    item = eviction()
    item["status"]["targetResponders"].pop()
    assert response(item) is None
    assert response({**item, "status": {}}) is None


def test_progress_is_reported_but_not_more_often_than_every_half_minute():
    first = response(eviction(), moving=migration())
    assert isinstance(first, ReportProgress)
    assert not first.is_complete
    assert response(eviction(heartbeatTime="2026-03-02T11:59:50Z"), moving=migration()) is None
    assert response(eviction(heartbeatTime="2026-03-02T11:59:20Z"), moving=migration()) is not None


@pytest.mark.parametrize(
    ("phase", "words"),
    [
        (MigrationPhase.COMPLETED, "moved: done"),
        (MigrationPhase.FAILED, "not moved, left to the next responder: done"),
    ],
)
def test_the_end_of_the_move_completes_the_response(phase, words):
    found = response(eviction(), moving=migration(phase, message="done"))
    assert found == ReportProgress(words, is_complete=True)
    completed = eviction(completionTime="2026-03-02T12:00:00Z")
    assert response(completed, moving=migration(phase)) is None


@pytest.mark.parametrize(
    "pod",
    [None, msgspec.structs.replace(POD, uid="u2"), msgspec.structs.replace(POD, deleted_s=1)],
    ids=["deleted", "another pod of that name", "terminating"],
)
def test_a_pod_that_is_gone_completes_the_response(pod):
    assert response(eviction(), pod=pod) == ReportProgress("the pod is gone", is_complete=True)


def test_a_cancelled_eviction_cancels_the_move_once():
    assert response(eviction("Canceled"), moving=migration()) == CancelMove()
    assert response(eviction("Canceled"), moving=migration(MigrationPhase.COMPLETED)) is None
    gone = msgspec.structs.replace(migration(), deleted=NOW)
    assert response(eviction("Canceled"), moving=gone) is None
