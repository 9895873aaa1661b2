"""Pending pods, the room that moves make for them, and what viewers of other namespaces learn about it."""

import contextlib
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from rescheduler.cluster.sources.cluster_kinds import WebhookProbeResult, snapshot_of
from rescheduler.cluster.sources.saved_source import read_saved, saved_usage
from rescheduler.config.policy_blocks import MakeRoomPolicy
from rescheduler.kube.client import Client
from rescheduler.kube.transport import InProcessTransport
from rescheduler.web.page_model import SavedPage
from rescheduler.web.web_authorization import TokenAuthorizer
from tests.unit.web.conftest import POLICY, Cluster, browsing

EXAMPLE = Path(__file__).parents[3] / "examples" / "fragmented-gpus.yaml"
MAKES_ROOM = replace(
    POLICY, enabled_strategies=("MakeRoom",), make_room=MakeRoomPolicy(min_pending_time=timedelta())
)


@contextlib.asynccontextmanager
async def fragmented(policy=MAKES_ROOM):
    """The example, with the pod that waits in the namespace `secret` and all others in `shop`."""
    content = yaml.safe_load(EXAMPLE.read_text())
    for item in content["items"]:
        if item["kind"] == "Pod":
            item["metadata"]["namespace"] = "secret" if item["metadata"]["name"] == "train" else "shop"
    content["items"] += [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("shop", "secret")
    ]
    reading = read_saved(yaml.safe_dump(content).encode(), source="gpus.yaml")
    reading.usage = saved_usage(reading, policy)
    page = SavedPage(snapshot_of(reading, policy), policy, WebhookProbeResult(), "gpus.yaml")
    page.plan()

    async def no_cluster(*_):
        raise AssertionError

    client = Client(InProcessTransport(Cluster()(no_cluster)))
    async with browsing(page, TokenAuthorizer(page, client, read_only=True)) as browser:
        yield browser


async def test_a_pending_pod_has_the_room_that_the_plan_makes():
    async with fragmented() as browser:
        await browser.login("token-of-admin")
        status = await browser.get("status")
        (pod,) = status["pending"]
        assert (pod["pod"], pod["room"], pod["moves"], pod["movesDone"]) == ("secret/train", "planned", 1, 0)
        assert pod["node"] == (await browser.get("plan"))["moves"][0]["from"]
        assert "Insufficient nvidia.com/gpu" in pod["message"]
        assert status["pendingCount"] == 1


async def test_a_pending_pod_without_room_has_the_reason():
    impossible = replace(MAKES_ROOM, excluded_namespaces=frozenset({"shop"}))
    async with fragmented(impossible) as browser:
        await browser.login("token-of-admin")
        (pod,) = (await browser.get("status"))["pending"]
        assert (pod["room"], pod["node"], pod["refusal"]["reason"]) == ("none", "", "NoRoomToMake")


@pytest.mark.parametrize("path", ["plan", "plan/document", "status", "nodes/gpu-1", "migrations"])
async def test_no_viewer_learns_for_which_hidden_pod_room_is_made(path):
    """The reason of a visible move names the pod that waits: viewers of the move may not see that one."""
    async with fragmented() as browser:
        await browser.login("token-of-dev")
        text = str(await browser.get(path))
        assert "train" not in text
        assert "secret" not in text
        (move,) = (await browser.get("plan"))["moves"]
        assert move["reason"] == "makes room for a pod (not visible to you)"
        assert (await browser.get("status"))["pendingCount"] == 0
