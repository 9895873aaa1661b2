"""No answer names an object of a namespace that its viewer may not list: not in a reason, a rule's detail, an
assumption or a halt either."""

import contextlib
import json

import pytest

from rescheduler.api.daemon_status import HaltReason
from rescheduler.cluster.sources.cluster_kinds import WebhookProbeResult, snapshot_of
from rescheduler.cluster.sources.saved_source import read_saved, saved_usage
from rescheduler.daemon.halts import ApiResponses, HaltFacts, current_halts
from rescheduler.kube.client import Client
from rescheduler.kube.transport import InProcessTransport
from rescheduler.web.page_model import SavedPage
from rescheduler.web.web_authorization import TokenAuthorizer
from rescheduler.web.web_events import visible_halt
from rescheduler.web.web_viewer import EVERYTHING_VISIBLE, HIDDEN_NAME, Visibility
from tests.building import cluster
from tests.unit.cli.conftest import SAVED_AT
from tests.unit.cluster.sources.rich_cluster import complete, saved
from tests.unit.daemon.test_halts import LIMITS, NOW, migration
from tests.unit.web.conftest import POLICY, Cluster, browsing

PORT = {"containers": [{"name": "app", "ports": [{"containerPort": 80, "hostPort": 80}]}]}


@contextlib.asynccontextmanager
async def looking(made, token="token-of-dev"):
    """A page of this saved cluster, seen by a user who may list nodes and the pods of `shop`."""
    raw = json.dumps(saved(complete(made.objects), saved_at=SAVED_AT)).encode()
    reading = read_saved(raw, source="test.json")
    reading.usage = saved_usage(reading, POLICY)
    page = SavedPage(snapshot_of(reading, POLICY), POLICY, WebhookProbeResult(), "test.json")

    async def no_cluster(*_):
        raise AssertionError

    client = Client(InProcessTransport(Cluster()(no_cluster)))
    async with browsing(page, TokenAuthorizer(page, client, read_only=True)) as browser:
        assert (await browser.login(token))[0] == 200
        yield browser


def talkative():
    """Return a cluster about which every message has the name of a pod in the namespace `secret`."""
    made = cluster().nodes("node-1", "node-2", "node-3", cpu="4")
    for name in ("shop", "secret"):
        made.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    # The plan moves some of these, and its assumptions name them: they serve, and have no preStop hook.
    main = {"name": "app", "ports": [{"containerPort": 80}], "resources": {"requests": {"cpu": "800m"}}}
    serving = {"containers": [main]}
    made.deployment("secret/vault", replicas=4, on=["node-1"], pod_spec=serving)
    # NodePorts names the pod that has the port.
    made.pod("secret/vault-port", on="node-2", owner="ReplicaSet/vault-2", spec=PORT)
    made.pod("shop/web", on="node-3", owner="ReplicaSet/web-1", spec=PORT)
    made.pod("secret/vault-lost", on="node-gone")
    return made


ANSWERS = [
    "status",
    "plan",
    "plan/document",
    "cluster",
    "nodes/node-1",
    "nodes/node-2",
    "nodes/node-3",
    "pods?limit=500",
    "pods/shop/web/explain",
    "migrations",
    "balance",
]


@pytest.mark.parametrize("path", ANSWERS)
async def test_no_answer_names_what_its_viewer_may_not_see(path):
    async with looking(talkative()) as browser:
        assert "vault" not in json.dumps(await browser.get(path))


@pytest.mark.parametrize(
    "wanted", [{}, {"drain": ["node-1"]}, {"pin": [{"pod": "shop/web", "node": "node-2"}]}]
)
async def test_no_what_if_names_what_its_viewer_may_not_see(wanted):
    async with looking(talkative()) as browser:
        found = await browser.post("what-if", wanted)
        document = await browser.get(f"what-if/{found['code']}/document")
        assert "vault" not in json.dumps([found, document])


async def test_all_that_is_hidden_is_shown_to_an_admin():
    """Otherwise the tests above would show nothing."""
    async with looking(talkative(), "token-of-admin") as browser:
        plan, node, pod = [
            await browser.get(path) for path in ("plan", "nodes/node-3", "pods/shop/web/explain")
        ]
        assert any("SIGTERM: secret/vault" in each for each in plan["assumptions"])
        assert any("secret/vault-lost on node-gone" in each for each in plan["assumptions"])
        assert "vault-lost" in json.dumps(node["assumptions"])
        assert "used by secret/vault-port" in json.dumps(pod["rows"])


async def test_a_viewer_of_pods_alone_gets_no_names_and_loads_of_nodes():
    """The error for an unknown node suggests no similar name, and histograms are of nodes."""
    async with looking(talkative(), "token-of-tester") as browser:
        status, body, _ = await browser.call("what-if", {"pin": [{"pod": "shop/web", "node": "node-4"}]})
        assert (status, body["message"]) == (422, "node node-4 not found")
        plan = await browser.get("plan")
        assert (plan["waves"], plan["histograms"]) == ([], [])


# --- texts

DEV = Visibility(nodes=True, namespaces=frozenset({"shop"}))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("makes room for secret/vault-0", f"makes room for {HIDDEN_NAME}"),
        ("StatefulSet/secret/vault is rolling out", f"{HIDDEN_NAME} is rolling out"),
        ("the budget secret/vault.budget: none left", f"the budget {HIDDEN_NAME}: none left"),
        ("shop/web-1, secret/vault, shop/web-2", f"shop/web-1, {HIDDEN_NAME}, shop/web-2"),
        ("makes room for shop/web-0", "makes room for shop/web-0"),
        ("the selector topology.kubernetes.io/zone=a", "the selector topology.kubernetes.io/zone=a"),
        ("2/3 pods of Deployment/shop/web", "2/3 pods of Deployment/shop/web"),
        ("see https://example.com/docs/reasons", "see https://example.com/docs/reasons"),
    ],
)
def test_texts_keep_what_the_viewer_may_see(text, shown):
    assert DEV.visible_text(text) == shown
    assert EVERYTHING_VISIBLE.visible_text(text) == text


def test_a_text_does_not_say_whether_a_namespace_exists():
    assert DEV.visible_text("no-such-namespace/x") == HIDDEN_NAME


def test_a_halt_of_the_whole_cluster_names_no_failed_migration():
    failed = [migration(n, workload=f"w-{n % 4}") for n in range(8)]
    answers = ApiResponses(requests=100, failed=90, last='pods "vault-0" not found')
    halts = current_halts(
        HaltFacts(now=NOW, migrations=failed, responses=answers, nodes=2, not_ready=["a", "b"]), LIMITS
    )
    assert {each.reason for each in halts} == {
        HaltReason.FAILURE_RATIO,
        HaltReason.API_FAILING,
        HaltReason.NODES_NOT_READY,
    }
    seen = [visible_halt(each, DEV).words for each in halts]
    assert not any("bank" in each or "m-7" in each or "vault" in each for each in seen)
    assert any("migrations that finished" in each for each in seen)
    assert any("(a, b)" in each for each in seen)
    blind = [visible_halt(each, Visibility(namespaces=frozenset({"shop"}))).words for each in halts]
    assert not any("a, b" in each for each in blind)
    assert [visible_halt(each, EVERYTHING_VISIBLE) for each in halts] == list(halts)
