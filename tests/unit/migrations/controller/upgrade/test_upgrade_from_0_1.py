"""An upgrade from 0.1 in the middle of a move: every migration that 0.1 has left comes to its end.

`left_by_0_1.jsonl.gz` has what 0.1's own code left in the cluster after each of its writes (`record_0_1.py`).
The migration is finished or rolled back: moved, or exactly as before, and nothing is left behind.
"""

import gzip
import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from kubesim import ApiServer
from kubesim.running_cluster import start_cluster
from kubesim.virtual_time import LoopClock, run_virtual
from rescheduler.api.podmigration import MigrationPhase
from rescheduler.api.podmigration_crd import PODMIGRATION_CRD_NAME, podmigration_crd
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.config.policy import Policy
from rescheduler.kube.api_resources import CUSTOM_RESOURCE_DEFINITIONS, apply_patch
from rescheduler.kube.client import Client
from rescheduler.kube.transport import InProcessTransport
from tests.stories.migrations.moves import Moves
from tests.stories.observer import observing
from tests.stories.sandbox import Sandbox
from tests.stories.simulated_cluster import NAMESPACE, SimulatedKubelet

RECORDED = Path(__file__).parent / "left_by_0_1.jsonl.gz"
STATES = [json.loads(line) for line in gzip.decompress(RECORDED.read_bytes()).splitlines()]
SHORTLY = timedelta(seconds=60)


def after_each_write(everyday):
    """Parametrise with all states; every day with one in `everyday`, because neighbours differ little."""
    return pytest.mark.parametrize(
        "state",
        [
            pytest.param(
                state,
                id=f"{state['play']} after {state['after']}",
                marks=pytest.mark.size if number % everyday else (),
            )
            for number, state in enumerate(STATES)
        ],
    )


@after_each_write(everyday=1)
def test_a_migration_that_0_1_left_is_finished_or_rolled_back(state):
    migration, pods, least = run_virtual(upgraded(state))
    check_pods(state, pods, least)
    assert migration is not None
    assert migration.status.phase in (MigrationPhase.COMPLETED, MigrationPhase.FAILED)


@after_each_write(everyday=3)
def test_a_migration_that_0_1_left_can_be_cancelled(state):
    _, pods, least = run_virtual(upgraded(state, cancelled=True))
    check_pods(state, pods, least)


def check_pods(state, pods, least):
    """Check that the source has moved, or is exactly as before."""
    assert state["play"].startswith("Evict") or least >= state["replicas"], "too few ready pods"
    source = state["source"]
    for pod in pods:
        if pod["metadata"]["uid"] == source["metadata"]["uid"]:
            assert described(pod) == described(source)


def described(pod):
    metadata = pod["metadata"]
    about = {name: metadata.get(name) for name in ("labels", "annotations", "ownerReferences", "finalizers")}
    return {**about, "spec": pod["spec"]}


async def upgraded(state, *, cancelled=False):
    """Return how the migration ends, the pods then, and how few ready ones there were."""
    # Another seed than in the recording: uids must not occur again.
    server = ApiServer(clock=LoopClock(datetime.fromisoformat(state["now"])), seed=8)
    # The definition first: without it, the kind of a PodMigration is not known.
    assert not server.load(each for each in state["items"] if each["kind"] == "CustomResourceDefinition")
    assert not server.load(each for each in state["items"] if each["kind"] != "CustomResourceDefinition")
    life = start_cluster(server)
    transport = InProcessTransport(server.handle)
    client = Client(transport)
    nodes = [each["metadata"]["name"] for each in state["items"] if each["kind"] == "Node"]
    sandbox = Sandbox(client, NAMESPACE, SimulatedKubelet(life.kubelets), nodes, server.clock.now)
    sandbox.behave({"startup": state["startup"], "termination": "0s"})
    policy = Policy(
        settle_time=timedelta(seconds=1), allow_unsteered=True, migration_timeout=SHORTLY, max_retries=0
    )
    moves = Moves(sandbox, server.clock.now, policy)
    try:
        async with observing(client, NAMESPACE) as seen:
            definition = apply_patch(podmigration_crd(), field_manager="upgrade", force=True)
            await client.patch(CUSTOM_RESOURCE_DEFINITIONS, PODMIGRATION_CRD_NAME, definition)
            if cancelled:
                await client.delete(POD_MIGRATIONS, state["migration"])
            async with moves.executing():
                migration = await moves.until_over(state["migration"], timeout_s=900)
                await moves.until_nothing_left()
                pods = await sandbox.until_ready(state["replicas"])
        return migration, pods, min(seen.ready)
    finally:
        await transport.close()
