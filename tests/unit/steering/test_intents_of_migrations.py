"""Which migrations have an intent, from when until when, and for which pods."""

from typing import Any

import pytest

from rescheduler.api.podmigration import ControllerReference, Migration, decode_migration
from rescheduler.migrations.transition_table import MigrationStep, phase_of
from rescheduler.steering.intents import Intent, intent_of_migration

REPLICA_SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-abc", "uid": "rs-1"}
STATEFUL_SET = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "sts-1"}


def migration(
    step: MigrationStep = MigrationStep.EVICTING, spec: dict[str, Any] | None = None, **status: Any
) -> Migration:
    return decode_migration(
        {
            "metadata": {
                "namespace": "shop",
                "name": "move-1",
                "creationTimestamp": "2026-03-01T12:00:00Z",
            },
            "spec": {"pod": {"name": "db-1", "uid": "p-1"}, "sourceNode": "old", **(spec or {})},
            "status": {
                "phase": phase_of(step),
                "step": step,
                "handover": "Evict",
                "targetNode": "new",
                "owner": REPLICA_SET,
                **status,
            },
        }
    )


def withdrawn(reason: str = "Withdrawn") -> dict[str, str]:
    when = "2026-03-01T12:00:00Z"
    return {"type": "Steered", "status": "False", "lastTransitionTime": when, "reason": reason}


def test_a_pod_of_a_replica_set_is_meant_by_its_owner():
    owner = ControllerReference("apps/v1", "ReplicaSet", "web-abc", "rs-1")
    assert intent_of_migration(migration()) == Intent("shop", owner, None, "new", ("old",), "move-1")


def test_a_pod_of_a_stateful_set_is_meant_by_its_name():
    intent = intent_of_migration(migration(owner=STATEFUL_SET))
    assert intent is not None
    assert (intent.workload.uid, intent.pod_name) == ("sts-1", "db-1")


@pytest.mark.parametrize(
    "step", [pytest.param(step, id=f"at {step}") for step in MigrationStep if step != MigrationStep.QUEUED]
)
def test_it_lasts_from_the_mark_until_the_replacement_is_ready(step: MigrationStep):
    lasting = {
        MigrationStep.MARKING,
        MigrationStep.PROTECTING,
        MigrationStep.EVICTING,
        MigrationStep.REPLACING,
    }
    assert (intent_of_migration(migration(step)) is not None) is (step in lasting)


def test_one_that_waits_for_its_next_try_has_none_though_its_last_try_is_on_record():
    assert intent_of_migration(migration(MigrationStep.QUEUED)) is None


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"handover": "Adopt"}, id="by Adopt, where the copy is placed by the migration itself"),
        pytest.param({"handover": "Copy"}, id="by Copy"),
        pytest.param({"handover": None}, id="not decided yet how"),
        pytest.param({"owner": None}, id="not decided yet by whose controller"),
        pytest.param({"conditions": [withdrawn()]}, id="withdrawn"),
    ],
)
def test_there_is_none_for_a_migration(status: dict[str, Any]):
    assert intent_of_migration(migration(**status)) is None


def test_without_a_target_any_node_but_the_source_will_do():
    intent = intent_of_migration(migration(targetNode=""))
    assert intent is not None
    assert (intent.prefer, intent.avoid) == ("", ("old",))


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        pytest.param({"sourceNode": "Not A Node"}, {}, id="as source"),
        pytest.param({}, {"targetNode": "no_node"}, id="as target"),
    ],
)
def test_an_invalid_node_name_steers_nothing(spec: dict[str, Any], status: dict[str, Any]):
    """With such a name in its affinity, the API server would refuse the pod."""
    assert intent_of_migration(migration(spec=spec, **status)) is None


def test_it_is_answered_once_the_replacement_is_known():
    intent = intent_of_migration(
        migration(MigrationStep.REPLACING, targetPod={"name": "web-2", "uid": "p-2"})
    )
    assert intent is not None
    assert intent.is_answered
