"""The facts of `tests/e2e/facts` that rest on controllers, told by the real control plane, hold here too.

The same test functions, on another stage: virtual time, a scheduler that knows only nominations and turns.
"""

import asyncio
import random
from datetime import datetime, timedelta

import pytest

from rescheduler.kube.client import Client
from rescheduler.kube.in_process import InProcess
from tests.e2e.facts import adopt, test_adopt_timing
from tests.e2e.facts.podmigrations import definitions
from tests.e2e.facts.stage import Stage
from tests.e2e.facts.test_adopt import *  # noqa: F403
from tests.e2e.facts.test_adopt_bystanders import (  # noqa: F401
    test_a_sibling_evicted_between_readiness_and_eviction_makes_the_budget_refuse_ours,
    test_a_third_party_that_never_stops_evicting_siblings_takes_nothing_below_the_count,
    test_an_unready_sibling_is_left_alone_when_a_ready_pod_moves,
    test_right_after_our_eviction_no_sibling_can_be_evicted,
    test_when_the_copy_is_evicted_the_source_stays,
    test_while_a_sibling_is_unready_a_budget_of_all_replicas_refuses_the_source,
)
from tests.e2e.facts.test_adopt_ownership import *  # noqa: F403
from tests.e2e.facts.test_adopt_refused import test_a_quota_refuses_with_403  # noqa: F401
from tests.e2e.facts.test_adopt_scale import *  # noqa: F403
from tests.e2e.facts.test_adopt_timing import *  # noqa: F403
from tests.e2e.facts.test_workloads import (  # noqa: F401
    test_the_replica_sets_template_edited_while_paused_steers_one_replacement_without_a_rollout,
)
from tests.e2e.facts.test_wrong_ways import (  # noqa: F401
    test_the_hash_trick_deletes_a_pod_that_the_user_marked_as_cheaper,
    test_the_hash_trick_deletes_an_unready_sibling_instead,
    test_the_hash_trick_deletes_the_source_past_a_budget_that_allows_nothing,
    test_with_an_eviction_at_the_same_time_the_hash_trick_falls_below_the_count,
)
from tests.unit.simulator.controllers.conftest import START

NETWORK_S = 0.002, 0.006
"""A request takes a moment, more or less: controllers react between two requests of one client."""


class ClusterTime(datetime):
    """The wall clock that the facts look at is the cluster's."""

    @classmethod
    def now(cls, tz=None):
        return START + timedelta(seconds=asyncio.get_running_loop().time())


class _Kubelet:
    """What a stage asks of a kubelet."""

    name = "simulated"

    def __init__(self, kubelets):
        self._kubelets = kubelets

    def behave(self, behaviour):
        self._kubelets._behaviour = behaviour
        for pod in self._kubelets._cluster.store.collection(self._kubelets._pods).ordered():
            self._kubelets._notice(pod)


@pytest.fixture
async def client(sim):
    dice = random.Random(1)

    async def handle(method, target, headers, body):
        await asyncio.sleep(dice.uniform(*NETWORK_S))
        return await sim.server.handle(method, target, headers, body)

    transport = InProcess(handle)
    yield Client(transport)
    await transport.close()


@pytest.fixture
def namespace():
    return "facts"


@pytest.fixture
async def set_stage(sim, client, namespace, monkeypatch):
    monkeypatch.setattr(adopt, "datetime", ClusterTime)
    monkeypatch.setattr(test_adopt_timing, "datetime", ClusterTime)
    await sim.create("namespaces", {"metadata": {"name": namespace}})
    for definition in definitions():
        await sim.create("customresourcedefinitions", definition)

    async def set_it(nodes=4):
        for number in range(4, nodes + 1):
            await sim.add_node(f"n{number}")
        for number in range(nodes + 1, 4):
            await sim.delete("nodes", f"n{number}")
        await asyncio.sleep(0.1)
        stage = Stage(client, namespace, _Kubelet(sim.kubelets), [f"n{n}" for n in range(1, nodes + 1)])
        stage.behave()
        return stage

    return set_it
