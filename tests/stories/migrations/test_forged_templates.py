"""Deployments whose pod template carries our labels and annotations, as any user could create them.

Nothing of ours is done to their pods: no label is removed, no pod deleted or evicted, and so the ReplicaSet
never makes another.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from rescheduler.api.well_known_names import (
    AVOIDED_NODES_ANNOTATION,
    POD_MIGRATION_KIND,
    STEERED_BY_ANNOTATION,
)
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube.api_resources import DEPLOYMENTS, POD_DISRUPTION_BUDGETS, ApiCall, Object
from rescheduler.kube.client import Client
from rescheduler.migrations import labels_and_names
from tests.stories.migrations.moves import MakeMoves, Moves
from tests.stories.objects import deployment, pod_spec

__all__ = [
    "test_of_a_migration_that_does_not_exist",
    "test_of_a_migration_that_is_over",
    "test_of_a_migration_that_is_under_way",
]

REPLICAS = 3
LABELS = {
    "only the lock": (labels_and_names.MIGRATION_ID_LABEL,),
    "the lock and its state": (labels_and_names.MIGRATION_ID_LABEL, labels_and_names.STATUS_LABEL),
    "all labels": labels_and_names.LABELS,
}
ANNOTATIONS: dict[str, dict[str, str]] = {
    "no annotation": {},
    "an original pod": {labels_and_names.ORIGINAL_POD_ANNOTATION: "somebody-else"},
    "all annotations": {
        labels_and_names.ORIGINAL_POD_ANNOTATION: "somebody-else",
        labels_and_names.ORIGINAL_POD_NAME_ANNOTATION: "web",
        labels_and_names.TIME_ANNOTATION: "2026-01-01T00:00:00Z",
        STEERED_BY_ANNOTATION: "move-1",
        AVOIDED_NODES_ANNOTATION: '["somewhere"]',
    },
}
FORGERIES = [
    pytest.param(labels, annotations, selects, id=f"{shown}, {also}, {'' if selects else 'not '}selected by")
    for shown, labels, also, annotations, selects in (
        ("only the lock", LABELS["only the lock"], "no annotation", ANNOTATIONS["no annotation"], True),
        ("the lock", LABELS["the lock and its state"], "an original", ANNOTATIONS["an original pod"], False),
        ("all labels", LABELS["all labels"], "all annotations", ANNOTATIONS["all annotations"], True),
    )
]


@dataclass
class Watched:
    """What was done to pods of the forged Deployment."""

    created: set[str] = field(default_factory=set)
    by_us: list[str] = field(default_factory=list)

    def __call__(self, call: ApiCall, code: int, seconds: float) -> None:
        if call.is_write and call.resource == PODS.label and call.name.startswith("forged"):
            self.by_us.append(str(call))


def values(labels: tuple[str, ...], name: str) -> dict[str, str]:
    said = {
        labels_and_names.MIGRATION_ID_LABEL: name,
        labels_and_names.STATUS_LABEL: "in-progress",
        labels_and_names.MIGRATED_FROM_LABEL: "n",
        labels_and_names.REASON_LABEL: "Manual",
    }
    return {label: said[label] for label in labels}


async def forge(moves: Moves, labels: dict[str, str], annotations: dict[str, str], selects: bool) -> None:
    sandbox = moves.sandbox
    item = deployment(sandbox.namespace, "forged", REPLICAS, pod_spec(sandbox.kubelet.name))
    item["spec"]["template"]["metadata"]["labels"] |= labels
    item["spec"]["template"]["metadata"]["annotations"] = annotations
    if selects:
        item["spec"]["selector"]["matchLabels"] |= labels
    await moves.client.create(DEPLOYMENTS, item)
    await sandbox.until_ready(REPLICAS, app="forged")


@contextlib.asynccontextmanager
async def watched(moves: Moves) -> AsyncIterator[tuple[Watched, Client]]:
    """Every pod of the Deployment that there ever is, and all that our client does to one."""
    seen = Watched()
    ours = moves.ours or moves.client
    page = await moves.client.list(PODS.as_json, namespace=moves.sandbox.namespace, labels="app=forged")

    async def follow() -> None:
        events = moves.client.watch(
            PODS.as_json,
            namespace=moves.sandbox.namespace,
            labels="app=forged",
            version=page.resource_version,
        )
        async with events as changes:
            async for change in changes:
                if change.object is not None and change.type != "BOOKMARK":
                    seen.created.add(change.object["metadata"]["uid"])

    seen.created |= {each["metadata"]["uid"] for each in page.items}
    following = asyncio.create_task(follow())
    try:
        yield seen, Client(ours.transport, observer=seen)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def there_and_back(moves: Moves, times: int = 2) -> None:
    """Moves of another pod: so long it takes until whatever is done at once was done many times."""
    sandbox = moves.sandbox
    name = "web"
    await sandbox.until_pod_ready(await sandbox.pod(name))
    for _ in range(times):
        (pod,) = await sandbox.pods()
        await moves.until_finished(await moves.create_migration(pod, await sandbox.free_node()))
        await sandbox.until_ready(1)


def assert_untouched(seen: Watched, pods: list[Object], labels: dict[str, str]) -> None:
    assert len(seen.created) == REPLICAS, "the ReplicaSet has made others"
    assert seen.by_us == []
    for pod in pods:
        assert pod["metadata"]["labels"].items() >= labels.items()
        assert (
            [owner["kind"] for owner in pod["metadata"]["ownerReferences"]]
            == ["ReplicaSet"]
            != [POD_MIGRATION_KIND]
        )


@pytest.mark.parametrize(("labels", "annotations", "selects"), FORGERIES)
async def test_of_a_migration_that_does_not_exist(
    make_moves: MakeMoves, labels: tuple[str, ...], annotations: dict[str, str], selects: bool
) -> None:
    moves = await make_moves()
    forged = values(labels, "made-up")
    await forge(moves, forged, annotations, selects)
    async with watched(moves) as (seen, ours):
        async with moves.executing(ours):
            await there_and_back(moves)
        assert_untouched(seen, await moves.sandbox.until_ready(REPLICAS, app="forged"), forged)


@pytest.mark.parametrize(("labels", "annotations", "selects"), FORGERIES)
async def test_of_a_migration_that_is_over(
    make_moves: MakeMoves, labels: tuple[str, ...], annotations: dict[str, str], selects: bool
) -> None:
    moves = await make_moves()
    forged = values(labels, "move-1")
    async with watched(moves) as (seen, ours), moves.executing(ours):
        await there_and_back(moves, times=1)
        await forge(moves, forged, annotations, selects)
        (pod,) = await moves.sandbox.pods()
        await moves.until_finished(await moves.create_migration(pod, await moves.sandbox.free_node()))
        assert_untouched(seen, await moves.sandbox.until_ready(REPLICAS, app="forged"), forged)


@pytest.mark.parametrize(("labels", "annotations", "selects"), FORGERIES)
@pytest.mark.parametrize("ends", ["completed", "rolled back"])
async def test_of_a_migration_that_is_under_way(
    make_moves: MakeMoves, labels: tuple[str, ...], annotations: dict[str, str], selects: bool, ends: str
) -> None:
    """Also with the original pod that its true copy names."""
    moves = await make_moves()
    sandbox = moves.sandbox
    source = await sandbox.until_pod_ready(await sandbox.pod("web"))
    await sandbox.budget(minAvailable=5)
    forged = values(labels, "move-1")
    if labels_and_names.ORIGINAL_POD_ANNOTATION in annotations:
        annotations = annotations | {labels_and_names.ORIGINAL_POD_ANNOTATION: source["metadata"]["uid"]}
    async with watched(moves) as (seen, ours), moves.executing(ours):
        key = await moves.create_migration(source, await sandbox.free_node())
        await moves.until(key, lambda migration: migration.status.step == "Evicting")
        await forge(moves, forged, annotations, selects)
        if ends == "rolled back":
            await moves.client.delete(POD_MIGRATIONS, key)
        await moves.client.delete(POD_DISRUPTION_BUDGETS, sandbox.key("budget"))
        await moves.until_over(key)
        (left,) = await sandbox.until_ready(1)
        is_source = left["metadata"]["uid"] == source["metadata"]["uid"]
        assert is_source == (ends == "rolled back")
        assert_untouched(seen, await sandbox.until_ready(REPLICAS, app="forged"), forged)
