"""What is done about a room that is made for a pending pod, by what is seen of the pod and the moves."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from msgspec import structs

from rescheduler.api.podmigration import MigrationPhase, RoomReference, decode_migration
from rescheduler.migrations.controller.room_reservation import (
    RELEASE_AFTER,
    RoomReservations,
    RoomStep,
    may_keep,
    next_room_step,
)
from tests.building import pod_record
from tests.objects import pod_object

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
ROOM = RoomReference("ml", "train", "uid-of-pod-ml-train", "a")


def migration(phase=MigrationPhase.IN_PROGRESS, *, finished=NOW, created=NOW - timedelta(seconds=50)):
    status = {"phase": phase}
    if phase.is_final:
        status["finishedAt"] = finished.isoformat()
    return decode_migration(
        {
            "metadata": {
                "namespace": "ml",
                "name": "move",
                "uid": "u",
                "resourceVersion": "1",
                "creationTimestamp": created.isoformat(),
            },
            "spec": {"pod": {"name": "small", "uid": "s"}, "sourceNode": "a", "targetNode": "b"},
            "status": status,
        }
    )


def pod(*, on="", nominated="", uid="", **parts):
    status = {"nominatedNodeName": nominated} if nominated else {}
    return pod_record(pod_object("ml/train", on=on, uid=uid, status=status, **parts))


COMPLETED, FAILED = migration(MigrationPhase.COMPLETED), migration(MigrationPhase.FAILED)
LONG_AGO = NOW - RELEASE_AFTER - timedelta(seconds=1)
LONG_COMPLETED = migration(MigrationPhase.COMPLETED, finished=LONG_AGO)
QUEUED, LONG_QUEUED = migration(MigrationPhase.PENDING), migration(MigrationPhase.PENDING, created=LONG_AGO)


@pytest.mark.parametrize(
    ("seen", "migrations", "step"),
    [
        pytest.param(pod(), [migration()], RoomStep.NOMINATE, id="a move is under way"),
        pytest.param(pod(nominated="a"), [migration()], RoomStep.WAIT, id="the room is kept"),
        pytest.param(pod(nominated="b"), [migration()], RoomStep.WAIT, id="the scheduler preempts elsewhere"),
        pytest.param(pod(), [COMPLETED, migration()], RoomStep.NOMINATE, id="cleared after the first of two"),
        pytest.param(pod(), [COMPLETED], RoomStep.NOMINATE, id="the last has just left"),
        pytest.param(pod(nominated="a"), [LONG_COMPLETED], RoomStep.RELEASE, id="not placed in time"),
        pytest.param(pod(), [QUEUED], RoomStep.NOMINATE, id="the move starts soon"),
        pytest.param(pod(nominated="a"), [LONG_QUEUED], RoomStep.RELEASE, id="the move does not start"),
        pytest.param(pod(), [LONG_QUEUED, migration()], RoomStep.NOMINATE, id="one of two has started"),
        pytest.param(pod(), [LONG_QUEUED, COMPLETED], RoomStep.NOMINATE, id="the next may start now"),
        pytest.param(pod(nominated="a"), [FAILED], RoomStep.RELEASE, id="the move failed"),
        pytest.param(pod(on="a"), [COMPLETED], RoomStep.USED, id="scheduled"),
        pytest.param(pod(on="c"), [migration()], RoomStep.USED, id="scheduled elsewhere"),
        pytest.param(None, [migration()], RoomStep.FORGET, id="gone"),
        pytest.param(pod(uid="other"), [migration()], RoomStep.FORGET, id="another pod of its name"),
        pytest.param(pod(deleted="2026-03-02T11:59:59Z"), [migration()], RoomStep.FORGET, id="being deleted"),
    ],
)
def test_the_next_step(seen, migrations, step):
    assert next_room_step(ROOM, seen, migrations, NOW) is step


@pytest.mark.parametrize(
    ("namespace", "node", "by", "made_here", "allowed"),
    [
        pytest.param("ml", "a", migration(), set(), True, id="a pod of the same namespace, where one leaves"),
        pytest.param("ml", "a", QUEUED, set(), False, id="the move was not approved"),
        pytest.param("ml", "z", migration(), set(), False, id="a node that no pod of theirs leaves"),
        pytest.param("other", "a", migration(), set(), False, id="a pod of another namespace, by any user"),
        pytest.param("other", "z", QUEUED, {"ml/move"}, True, id="a pod of another namespace, planned here"),
    ],
)
def test_who_may_have_a_room_kept(namespace, node, by, made_here, allowed):
    """Tenants who may create PodMigrations can't nominate pods of others, nor withhold nodes with theirs."""
    room = RoomReference(namespace, "train", "u", node)
    assert may_keep(room, by, made_here) is allowed


def test_a_room_with_the_uid_of_a_foreign_pod_does_not_replace_the_room_of_that_pod():
    """A tenant names its own namespace, and the uid of a pod of another one."""
    watched = SimpleNamespace(records=SimpleNamespace(migration=lambda item: item), made_here={"ml/move"})
    rooms = RoomReservations(None, watched, None, lambda: NOW, None)
    ours = structs.replace(migration(), spec=structs.replace(migration().spec, rooms=(ROOM,)))
    forged = RoomReference("tenant", "own", ROOM.uid, "a")
    theirs = structs.replace(
        ours, key="tenant/move", namespace="tenant", spec=structs.replace(ours.spec, rooms=(forged,))
    )
    for each in (ours, theirs):
        rooms._observe(each)
    assert [tracked.room for tracked in rooms._rooms.values()] == [ROOM, forged]
