"""The page of a running cluster: events, actions, and a move that is followed to its end."""

import asyncio
import contextlib
import json
from itertools import pairwise

import pytest

from rescheduler.api.well_known_names import CORDONED_BY_ANNOTATION, REQUESTED_BY_ANNOTATION
from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.kube.api_resources import CONFIG_MAPS, merge_patch
from rescheduler.web.cluster_grid import LoadHistory
from rescheduler.web.web_authorization import LinkAuthorizer
from rescheduler.web.web_server import PageOptions
from tests.building import cluster
from tests.unit.web.conftest import browsing, living


class Stream:
    """An EventSource."""

    def __init__(self, content):
        self._content = content
        self.last_id = ""
        self.seen = []

    async def next(self, *names, where=lambda _: True):
        """Return the data of the next event of these names."""
        async with asyncio.timeout(20):
            event = {}
            async for raw in self._content:
                line = raw.decode().rstrip("\n")
                if line and not line.startswith(":"):
                    key, _, value = line.partition(": ")
                    event[key] = value
                elif event.get("event"):
                    self.last_id = event.get("id", self.last_id)
                    found, event = (event["event"], json.loads(event["data"])), {}
                    self.seen.append(found[0])
                    if found[0] in names and where(found[1]):
                        return found[1]
        return pytest.fail(f"no event of {names}; seen: {self.seen}")


@contextlib.asynccontextmanager
async def listening(browser, last_id=""):
    headers = {"Last-Event-ID": last_id} if last_id else {}
    async with browser.http.get(f"{browser.base}/api/v1/events", headers=headers) as answer:
        assert answer.status == 200
        assert answer.content_type == "text/event-stream"
        yield Stream(answer.content)


async def test_changes_of_nodes_arrive_as_rows(live):
    """Only what changed is sent, with a number that follows that of the cluster."""
    browser, client = live
    async with listening(browser) as stream:
        assert (await stream.next("resync"))["why"] == "start"
        before = await browser.get("cluster")
        await client.patch(NODES, "node-2", merge_patch({"spec": {"unschedulable": True}}))
        row = before["nodes"]["names"].index("node-2")
        delta = await stream.next(
            "nodes", where=lambda each: row in each["rows"] and each["flags"][each["rows"].index(row)] & 2
        )
        assert delta["revision"] > before["revision"]
        assert all(len(each["usage"]) == len(delta["rows"]) for each in delta["resources"])


async def test_a_new_node_makes_pages_load_the_cluster_again(live):
    browser, client = live
    async with listening(browser) as stream:
        await browser.get("cluster")
        await client.delete(NODES, "node-3")
        assert (await stream.next("resync", where=lambda each: each["why"] == "nodes"))["epoch"]


async def test_a_client_that_comes_back_continues_where_it_was(live):
    browser, client = live
    async with listening(browser) as stream:
        await browser.get("cluster")
        await stream.next("resync")
    async with listening(browser) as other:
        await client.patch(NODES, "node-2", merge_patch({"spec": {"unschedulable": True}}))
        await other.next("nodes", where=lambda each: 2 in [flag & 2 for flag in each["flags"]])
    async with listening(browser, stream.last_id) as again:
        await again.next("nodes", where=lambda each: 2 in [flag & 2 for flag in each["flags"]])
        assert "resync" not in again.seen


@pytest.mark.parametrize("last_id", ["other-3", "x", "-", "0123456789abcdef-99999999999999999999"])
async def test_after_a_restart_of_the_server_pages_load_everything_again(live, last_id):
    browser, _ = live
    async with listening(browser, last_id) as stream:
        assert (await stream.next("resync"))["why"] == "restarted"


async def test_a_move_is_previewed_confirmed_and_watched_to_its_end(live):
    """The preview has exactly the PodMigration that is then created."""
    browser, client = live
    pod = (await browser.get("pods?q=shop/web&limit=1"))["pods"][0]["pod"]
    preview = await browser.post("actions/preview", {"kind": "move", "pod": pod, "node": "node-2"})
    (change,) = preview["changes"]
    assert (change["verb"], change["kind"], change["namespace"]) == ("create", "PodMigration", "shop")
    assert (await client.list(POD_MIGRATIONS)).items == [], "a preview changes nothing"
    async with listening(browser) as stream:
        result = await browser.post("actions/confirm", {"confirmation": preview["confirmation"]})
        assert result["migrations"] == [f"shop/{change['name']}"]
        created = await client.get(POD_MIGRATIONS, result["migrations"][0])
        assert created["spec"] == change["manifest"]["spec"] | {
            key: value for key, value in created["spec"].items() if key not in change["manifest"]["spec"]
        }
        assert created["spec"]["reason"] == "requested by me"
        said = created["metadata"]["annotations"]
        assert said == change["manifest"]["metadata"]["annotations"]
        assert said[REQUESTED_BY_ANNOTATION] == "me"
        steps = set()

        def is_done(delta):
            steps.update(one["step"] for one in delta["changed"])
            return any(one["phase"] == "Completed" for one in delta["changed"])

        done = await stream.next("migrations", where=is_done)
    assert steps & {"Placing", "Starting", "Settling"}, f"the steps of its copy are shown, too: {steps}"
    moved = next(one for one in done["changed"] if one["phase"] == "Completed")
    assert (moved["to"], moved["readySecondsLost"]) == ("node-2", 0.0)
    assert moved["step"] in moved["steps"]
    detail = await browser.get(f"migrations/{moved['key']}")
    assert detail["timeline"][0]["reason"] == "Created"
    found = await browser.get("migrations?state=finished&node=node-2")
    assert (found["total"], found["running"]) == (1, 0)
    assert (await browser.get("migrations?strategy=LoadBalancing"))["total"] == 0


async def test_a_confirmation_is_used_once_and_by_its_session(live):
    browser, client = live
    preview = await browser.post("actions/preview", {"kind": "pause", "why": "maintenance"})
    assert (await browser.call("actions/confirm", {"confirmation": "guess"}))[0] == 404
    await browser.post("actions/confirm", {"confirmation": preview["confirmation"]})
    item = await client.get(CONFIG_MAPS, "rescheduler/rescheduler-state")
    assert json.loads(item["data"]["pause"])["why"] == "maintenance"
    assert (await browser.call("actions/confirm", {"confirmation": preview["confirmation"]}))[0] == 404


@pytest.mark.parametrize("kind", ["pause", "resume"])
async def test_a_pause_that_no_daemon_would_see_is_refused(kind):
    """A daemon that is installed later has its state in another namespace."""
    async with living() as (page, client):
        page.rescheduler.lease.key = "kube-system/rescheduler"
        authorizer = LinkAuthorizer(page, read_only=False, client=client, user="me")
        async with browsing(page, authorizer, PageOptions(executes_actions=True)) as browser:
            await browser.login(authorizer.secret)
            status, body, _ = await browser.call("actions/preview", {"kind": kind})
    assert status == 409
    assert "rescheduler is not installed in this cluster" in json.dumps(body)


async def test_what_is_saved_is_what_was_shown(live):
    """The cluster goes on changing; the plan that is saved or executed is the one that the viewer saw."""
    browser, client = live
    shown = await browser.post("what-if", {"drain": ["node-1"], "maxMoves": 50})
    assert shown["plan"]["moves"]
    async with listening(browser) as stream:
        await browser.get("cluster")
        await client.delete(NODES, "node-3")
        await stream.next("resync", where=lambda each: each["why"] == "nodes")
    saved = await browser.get(f"what-if/{shown['code']}/document")
    assert [(move["pod"], move["to"]) for move in saved["moves"]] == [
        (move["pod"], move["to"]) for move in shown["plan"]["moves"]
    ]
    again = await browser.get(f"what-if/{shown['code']}")
    assert again["plan"]["moves"] != shown["plan"]["moves"], "the link plans again"


async def test_a_refused_move_has_reasons_and_no_confirmation(live):
    browser, _ = live
    pod = (await browser.get("pods?q=shop/web&limit=1"))["pods"][0]
    preview = await browser.post("actions/preview", {"kind": "move", "pod": pod["pod"], "node": pod["node"]})
    assert preview["confirmation"] == ""
    assert [each["reason"] for each in preview["refused"]] == ["TargetUnfit"]


async def test_a_node_is_drained_and_returned(live):
    browser, client = live
    preview = await browser.post("actions/preview", {"kind": "drain", "node": "node-3"})
    async with listening(browser) as stream:
        await browser.get("cluster")
        await browser.post("actions/confirm", {"confirmation": preview["confirmation"]})
        await stream.next("nodes", where=lambda each: 6 in [flag & 6 for flag in each["flags"]])
    preview = await browser.post("actions/preview", {"kind": "undrain", "node": "node-3"})
    assert {change["kind"] for change in preview["changes"]} == {"Node"}
    await browser.post("actions/confirm", {"confirmation": preview["confirmation"]})
    assert not (await client.get(NODES, "node-3")).unschedulable


async def test_the_preview_of_a_return_uncordons_only_what_maintenance_has_cordoned(live):
    browser, client = live
    cordon = {"metadata": {"annotations": {CORDONED_BY_ANNOTATION: "CostOptimization"}}}
    async with listening(browser) as stream:
        await browser.get("cluster")
        await client.patch(NODES, "node-3", merge_patch({**cordon, "spec": {"unschedulable": True}}))
        await stream.next("nodes", where=lambda each: 2 in [flag & 2 for flag in each["flags"]])
    preview = await browser.post("actions/preview", {"kind": "undrain", "node": "node-3"})
    assert [change["manifest"].get("spec") for change in preview["changes"]] == [None]


async def test_unknown_objects_are_not_found(live):
    browser, _ = live
    for body in (
        {"kind": "move", "pod": "shop/none"},
        {"kind": "drain", "node": "none"},
        {"kind": "cancel", "migration": "shop/none"},
    ):
        assert (await browser.call("actions/preview", body))[0] == 404
    assert (await browser.call("migrations/shop/none"))[0] == 404


def test_the_history_is_bounded_and_follows_nodes():
    """A node that comes later has no past; one that goes is forgotten."""
    history = LoadHistory(interval_s=10, longest_interval_s=10, most=3)
    first = cluster().node("a").pod("x/1", on="a", cpu="1")
    for number in range(5):
        assert history.add(first.snapshot(now=1000.0 + 10 * number), ["cpu"])
    assert not history.add(first.snapshot(now=1041.0), ["cpu"])
    assert len(history.of_node("a").at) == 3
    assert len(history.balance().points) == 3
    history.add(first.node("b").snapshot(now=1060.0), ["cpu"])
    assert len(history.of_node("b").at) == 1
    assert len(history.of_node("a").at) == 3
    assert history.of_node("gone").at == []


def test_the_history_becomes_coarser_before_it_forgets():
    """Each time the samples are full, every second one goes and the interval doubles."""
    history = LoadHistory(interval_s=2, longest_interval_s=64, most=60)
    first = cluster().node("a").pod("x/1", on="a", cpu="1")
    for at_s in range(0, 3601, 2):
        history.add(first.snapshot(now=1e9 + at_s), ["cpu"])
    at = history.of_node("a").at
    assert len(at) <= 60
    assert at[0] == 1e9, "the beginning is still known"
    assert history.interval_s == max(later - earlier for earlier, later in pairwise(at)) == 64
    assert len(history.balance().points) == len(at)
