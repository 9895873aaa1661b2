"""The API server validates PodMigrations."""

import copy
from typing import Any

import pytest

from rescheduler.api.podmigration import MigrationPhase, decode_migration
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube import errors
from rescheduler.kube.api_resources import Object, merge_patch
from tests.stories.migrations.moves import MakeMoves

REQUEST: Object = {
    "apiVersion": POD_MIGRATIONS.api_version,
    "kind": POD_MIGRATIONS.kind,
    "metadata": {"name": "move"},
    "spec": {"pod": {"name": "web", "uid": "1234"}, "sourceNode": "a", "targetNode": "b"},
}


def podmigration(namespace: str, **spec: Any) -> Object:
    made = copy.deepcopy(REQUEST)
    made["metadata"]["namespace"] = namespace
    made["spec"] = {name: value for name, value in (made["spec"] | spec).items() if value is not None}
    return made


async def test_a_new_migration_is_pending_and_needs_no_pods(make_moves: MakeMoves) -> None:
    moves = await make_moves(nodes=1)
    made = await moves.client.create(POD_MIGRATIONS, podmigration(moves.sandbox.namespace))
    migration = decode_migration(made)
    assert migration.status.phase is MigrationPhase.PENDING
    assert migration.spec.strategy == "Manual"
    scale = await moves.client.get(POD_MIGRATIONS.scale, migration.key)
    assert scale["spec"].get("replicas", 0) == 0
    assert scale["status"].get("replicas", 0) == 0


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        pytest.param({"pod": None}, "spec.pod", id="that names no pod"),
        pytest.param({"pod": {"name": "web"}}, "spec.pod.uid", id="that does not say which pod"),
        pytest.param({"sourceNode": ""}, "spec.sourceNode", id="without a source"),
        pytest.param({"handover": "Teleport"}, "Unsupported value", id="with an unknown handover"),
        pytest.param({"replicas": 1}, "spec.replicas", id="that wants pods of its own"),
    ],
)
async def test_an_invalid_migration_is_refused(make_moves: MakeMoves, spec: Object, why: str) -> None:
    moves = await make_moves(nodes=1)
    with pytest.raises(errors.Invalid, match=why):
        await moves.client.create(POD_MIGRATIONS, podmigration(moves.sandbox.namespace, **spec))


async def test_a_migration_to_the_source_node_is_refused(make_moves: MakeMoves) -> None:
    moves = await make_moves(nodes=1)
    with pytest.raises(errors.Invalid, match="targetNode must differ from sourceNode"):
        await moves.client.create(POD_MIGRATIONS, podmigration(moves.sandbox.namespace, targetNode="a"))


async def test_the_spec_is_immutable(make_moves: MakeMoves) -> None:
    moves = await make_moves(nodes=1)
    await moves.client.create(POD_MIGRATIONS, podmigration(moves.sandbox.namespace))
    with pytest.raises(errors.Invalid, match="delete this PodMigration and create another"):
        await moves.client.patch(
            POD_MIGRATIONS, moves.sandbox.key("move"), merge_patch({"spec": {"targetNode": "c"}})
        )


async def test_the_status_is_a_subresource(make_moves: MakeMoves) -> None:
    moves = await make_moves(nodes=1)
    made = await moves.client.create(
        POD_MIGRATIONS, podmigration(moves.sandbox.namespace) | {"status": {"phase": "Completed"}}
    )
    assert made["status"]["phase"] == "Pending"
    with pytest.raises(errors.Invalid, match=r"status\.phase"):
        await moves.client.patch(
            POD_MIGRATIONS.status, moves.sandbox.key("move"), merge_patch({"status": {"phase": "Lost"}})
        )
