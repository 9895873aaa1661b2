"""`rescheduler status`, `pause` and `resume`, and what is shown of what the leader wrote."""

import json
import re
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

import msgspec
import pytest

from kubesim.apiserver.api_messages import object_response
from rescheduler.api.daemon_status import (
    DaemonStatus,
    DetectedAutoscaler,
    DryRunEvidence,
    FailingPod,
    Halt,
    HaltReason,
    LastCheck,
    NodeInMaintenance,
    NodeLoad,
    Pause,
    ResourceBalance,
    SpreadChange,
    SuspectNode,
    encode_state,
)
from rescheduler.api.podmigration_crd import PODMIGRATION_CRD_NAME, missing_crd_parts, podmigration_crd
from rescheduler.cli.execution import current_user
from rescheduler.cli.status_view import ObservedStatus, status_document, status_lines
from rescheduler.cli.terminal import Terminal
from rescheduler.cluster.node_record import NodeCondition
from rescheduler.install.install_options import labels
from rescheduler.install.manifests import install_manifests
from rescheduler.kube.leader_election import LeaseRecord, lease_spec_of
from rescheduler.planner.maintenance_status import NOT_ENABLED
from rescheduler.steering.webhook.webhook_configurations import UrlAddress, webhook_configurations
from tests.unit.cli.conftest import lopsided
from tests.unit.cli.simulated_server import answering_who, forbidding, served
from tests.unit.cli.test_explain import Answering
from tests.unit.cluster.sources.rich_cluster import complete

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
AGO = NOW - timedelta(seconds=12)
STATUS = DaemonStatus(
    leader="daemon-1",
    version="1.0",
    updated=NOW,
    last_check=LastCheck(
        AGO, 0.253, moves=2, refused={"TooYoung": 3, "BudgetSpent": 1}, usage_source="metrics"
    ),
    balance=(ResourceBalance("cpu", 65.0, NodeLoad("node-2", 55.0), NodeLoad("node-1", 75.0)),),
)
CHECK = (
    "Last check   12s ago, took 0.25 s, 2 moves, 4 pods refused (3 TooYoung, 1 BudgetSpent), load by metrics"
)
LEASE = LeaseRecord("daemon-1", 15, NOW, NOW - timedelta(seconds=2), 0)


def found(status=STATUS, lease=LEASE, pause=Pause(), migrations=(), in_maintenance=MappingProxyType({})):  # noqa: B008
    return ObservedStatus("ops", pause, status, lease, migrations, in_maintenance, 5, 0)


def shown(*args, **kwargs):
    return "\n".join(status_lines(found(*args, **kwargs), Terminal(), NOW))


def test_all_is_well():
    assert shown() == "\n".join(
        [
            "Leader       daemon-1, renewed 2s ago",
            "Version      1.0",
            CHECK,
            "Halts        none",
            "Nodes        5, 0 not Ready",
            "Balance      cpu: mean 65.0%, from 55.0% (node-2) to 75.0% (node-1), spread 20.0",
            "Autoscalers  none found",
            "Migrations   none",
        ]
    )


def test_a_dry_run_says_what_it_would_have_done_and_how_to_switch_it_off():
    evidence = DryRunEvidence(NOW - timedelta(days=7), 12, (SpreadChange("cpu", 41.3, 17.1),))
    lines = shown(msgspec.structs.replace(STATUS, dry_run=evidence), LeaseRecord()).splitlines()
    assert lines[0] == "Leader       none: dry run, reported by daemon-1"
    said = lines.index(
        "Dry run      would have moved 12 pods in 7 days, spread cpu 41 → 17 points. Nothing is moved."
    )
    assert "--set dryRun=false" in lines[said + 1]


def test_limits_say_when_moves_are_possible_again():
    held = ("maxMovesPerHour.total (9) allows 9 moves per hour: 9 started in the last hour", "no window")
    check = msgspec.structs.replace(STATUS.last_check, limits=held)
    lines = shown(msgspec.structs.replace(STATUS, last_check=check)).splitlines()
    assert lines[3:5] == [f"Limits       {held[0]}", f"             {held[1]}"]


def test_no_process_leads():
    assert "Leader       none in namespace ops" in shown(None, LeaseRecord())
    assert "Last check   none yet" in shown(None, LeaseRecord())


def test_a_leader_that_is_silent_is_none():
    silent = LeaseRecord("daemon-1", 15, NOW, NOW - timedelta(minutes=5), 0)
    assert "none: daemon-1 stopped renewing the Lease, last renewed 5m ago" in shown(lease=silent)


def test_halts_say_why_since_when_and_how_they_end():
    halt = Halt(HaltReason.FAILURE_RATIO, AGO, "4 of 4 failed", "by itself at 12:14:00 UTC")
    status = DaemonStatus(halts=(halt,))
    assert "Halted       FailureRatio for 12s: 4 of 4 failed. Ends: by itself at 12:14:00 UTC." in shown(
        status
    )


def test_a_pause_that_the_daemon_has_not_seen_yet():
    assert "Paused       requested by ada; the daemon has not confirmed it yet" in shown(
        pause=Pause(paused=True, by="ada", at=NOW)
    )
    assert "requested by ada: load test; the daemon" in shown(
        pause=Pause(paused=True, by="ada", at=NOW, why="load test")
    )


def test_a_pause_without_a_daemon_waits_for_one():
    without = shown(
        status=None, lease=LeaseRecord("", 15, NOW, NOW, 0), pause=Pause(paused=True, by="ada", at=NOW)
    )
    assert "Paused       requested by ada; it applies as soon as a daemon runs" in without


def test_what_is_wrong():
    status = DaemonStatus(
        configuration="config.yaml: 1 error\n  line 6: too much",
        failing=(FailingPod("shop/web-1", "node-1", "CrashLoopBackOff", 1, 3),),
        suspects=(SuspectNode("node-1", 4),),
        maintenance=(
            NodeInMaintenance("node-2", 3, ("shop/db-0: BudgetSpent",)),
            NodeInMaintenance("node-3", 0, message="empty"),
            NodeInMaintenance("node-6", 2, message="2 pods are still there and terminating", terminating=2),
        ),
    )
    by_command = NodeCondition("rescheduler.dev/Empty", "True", "Empty", "empty: all pods moved")
    labelled = {"node-2": None, "node-4": None, "node-5": by_command}
    reported = shown(status, in_maintenance=labelled)
    assert (
        "Config       invalid change ignored: config.yaml: 1 error\n             line 6: too much\n"
        in reported
    )
    assert "Failing      shop/web-1 on node-1: CrashLoopBackOff, attempt 1 of 3" in reported
    assert "Suspect      node-1: 4 workloads failing there" in reported
    assert "Maintenance  node-2: 3 pods left; blocked: shop/db-0: BudgetSpent" in reported
    assert "             node-3: empty\n" in reported
    assert "             node-6: 2 pods are still there and terminating\n" in reported
    assert "node-4: has the maintenance label, but the daemon has not reported on it yet" in reported
    assert "node-5: empty: all pods moved" in reported


def test_moves_that_nothing_makes_are_shown_with_what_to_do():
    """As after Ctrl-C was pressed twice: the steps of such moves no longer change."""
    running = [{
        "metadata": {"namespace": "shop", "name": "web-1", "creationTimestamp": "2026-03-02T11:00:00Z"},
        "spec": {"sourceNode": "node-1", "targetNode": "node-2", "strategy": "NodeMaintenance"},
        "status": {"phase": "InProgress", "step": "Settling"},
    }]  # fmt: skip
    left = NodeCondition("rescheduler.dev/Empty", "False", "Emptying", "2 pods are still there")
    stopped = shown(None, LeaseRecord(), migrations=running, in_maintenance={"node-1": left})
    assert "To finish them, run: rescheduler migrations --resume" in stopped
    assert (
        "node-1: 2 pods are still there. Nothing drains it now. To continue, run `rescheduler dr" in stopped
    )
    led = shown(None, migrations=running, in_maintenance={"node-1": left})
    assert "--resume" not in led
    assert "Nothing drains it" not in led


def test_a_drain_that_a_daemon_does_not_continue_is_shown_with_what_to_do():
    """As after Ctrl-C in `drain`, if NodeMaintenance is not enabled."""
    left = NodeInMaintenance("node-1", 2, message="2 pods are still there")
    stopped = shown(msgspec.structs.replace(STATUS, maintenance=(left,)))
    assert "No move from it is in progress. To continue, run `rescheduler drain node-1`" in stopped
    running = [{
        "metadata": {"namespace": "shop", "name": "web-1", "creationTimestamp": "2026-03-02T11:00:00Z"},
        "spec": {"sourceNode": "node-1", "targetNode": "node-2", "strategy": "NodeMaintenance"},
        "status": {"phase": "InProgress", "step": "Settling"},
    }]  # fmt: skip
    halt = Halt(HaltReason.PAUSED, NOW, "paused by ada", "when you run `rescheduler resume`")
    blocked = msgspec.structs.replace(left, blocked=("shop/db-0: BudgetSpent",))
    for status, migrations in (
        (msgspec.structs.replace(STATUS, maintenance=(left,)), running),
        (msgspec.structs.replace(STATUS, maintenance=(left,), halts=(halt,)), ()),
        (msgspec.structs.replace(STATUS, maintenance=(blocked,)), ()),
        (
            msgspec.structs.replace(
                STATUS, maintenance=(msgspec.structs.replace(left, message=NOT_ENABLED),)
            ),
            (),
        ),
    ):
        assert "To continue" not in shown(status, migrations=migrations)


def test_what_remains_of_drains_by_other_clients():
    def moved(node, number, phase):
        return {
            "metadata": {"namespace": "shop", "name": f"eviction-{node}-{number}",
                         "creationTimestamp": "2026-03-02T11:00:00Z"},
            "spec": {"sourceNode": node, "strategy": "Eviction", "reason": "evicted by alice",
                     "pod": {"name": f"web-{number}", "uid": str(number)}},
            "status": {"phase": phase},
        }  # fmt: skip

    running = [moved("node-1", 1, "InProgress"), moved("node-1", 2, "Pending"), moved("node-2", 3, "Pending")]
    lines = shown(migrations=running)
    assert (
        "Evictions    node-1: 2 pods left to move before eviction, 1 moving, 1 waiting; evicted by alice"
        in lines
    )
    assert "             node-2: 1 pod left to move before eviction, 0 moving, 1 waiting" in lines


def test_programs_get_everything():
    form = status_document(found(), NOW)
    assert form["leader"] == "daemon-1"
    assert form["lastCheck"]["moves"] == 2
    assert form["nodes"] == {"total": 5, "notReady": 0}
    assert json.dumps(form)


@pytest.fixture
def rescheduler(run, kubeconfig):
    def invoke(*arguments):
        return run(*arguments, "--kubeconfig", kubeconfig)

    return invoke


def test_pausing_and_resuming_is_kept_in_the_cluster(rescheduler):
    assert "none in namespace kube-system" in rescheduler("status").stdout
    paused = rescheduler("pause", "--why", "the fair", "-n", "kube-system")
    assert paused.exit_code == 0, paused.output
    assert "ConfigMap kube-system/rescheduler-state" in paused.stdout
    pause = json.loads(rescheduler("status", "-o", "json").stdout)["pause"]
    assert (pause["paused"], pause["why"]) == (True, "the fair")
    assert rescheduler("resume", "-n", "kube-system").exit_code == 0
    pause = json.loads(rescheduler("status", "-o", "json").stdout)["pause"]
    assert pause["paused"] is False
    assert pause["at"], "since then failures count"


def test_resuming_without_a_pause_says_so_and_changes_nothing(rescheduler):
    done = rescheduler("resume", "-n", "kube-system")
    assert (done.exit_code, done.stdout) == (0, "not paused: nothing to resume\n")
    assert json.loads(rescheduler("status", "-o", "json").stdout)["pause"]["at"] is None


def test_resuming_ends_a_halt_by_failures_although_nothing_is_paused(run, tmp_path):
    """The daemon says that `resume` ends it."""
    halt = Halt(HaltReason.FAILURE_RATIO, NOW, "3 of 3 moves failed", "when you run `rescheduler resume`")
    state = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "kube-system", "name": "rescheduler-state"},
        "data": {"status": encode_state(DaemonStatus(halts=(halt,)))},
    }
    with served([*complete(lopsided().objects), state], tmp_path / "kubeconfig") as kubeconfig:
        done = run("resume", "-n", "kube-system", "--kubeconfig", kubeconfig)
        shown = run("status", "-n", "kube-system", "-o", "json", "--kubeconfig", kubeconfig).stdout
    assert done.stdout.startswith("Resumed (ConfigMap kube-system/rescheduler-state)")
    assert json.loads(shown)["pause"]["at"], "failures before it count no longer"


def test_a_pause_that_no_daemon_would_see_is_refused(rescheduler):
    """A daemon that is installed later has its state in another namespace."""
    for command in ("pause", "resume"):
        result = rescheduler(command)
        assert result.exit_code == 1
        assert "rescheduler is not installed in this cluster" in result.stderr
        assert "with -n kube-system" in result.stderr
    assert json.loads(rescheduler("status", "-o", "json").stdout)["pause"]["paused"] is False


def test_a_daemon_that_is_installed_in_kube_system_can_be_paused_before_it_leads(run, tmp_path):
    """It may be a dry run, which holds another Lease, or be scaled to zero until the pause is there."""
    items = install_manifests(namespace="kube-system", configuration="")
    ours = [each for each in items if each["kind"] in {"ClusterRoleBinding", "ConfigMap", "Deployment"}]
    with served(complete([*lopsided().objects, *ours]), tmp_path / "kubeconfig") as kubeconfig:
        paused = run("pause", "--kubeconfig", kubeconfig)
        assert paused.exit_code == 0, paused.output
        assert "ConfigMap kube-system/rescheduler-state" in paused.stdout


@pytest.mark.parametrize(
    ("wrap", "user"),
    [
        pytest.param(answering_who("ann@example.com"), f"ann@example.com ({current_user()})", id="known"),
        pytest.param(forbidding("selfsubjectreviews"), current_user(), id="the API server does not say"),
    ],
)
def test_a_pause_and_its_end_name_the_user_of_the_cluster(tmp_path, run, wrap, user):
    """USER@HOST alone is not verified, and is the same for all who use one jump host."""
    with served(complete(lopsided().objects), tmp_path / "kubeconfig", wrap) as kubeconfig:
        where = ("-n", "kube-system", "--kubeconfig", kubeconfig)
        assert run("pause", *where).exit_code == 0
        assert f"Paused       requested by {user};" in run("status", *where).stdout
        assert run("resume", *where).exit_code == 0
        assert json.loads(run("status", *where, "-o", "json").stdout)["pause"]["by"] == user


def test_the_namespace_can_be_named(rescheduler):
    """Nothing is paused until a daemon runs there: the answer must not say that moves stop."""
    done = rescheduler("pause", "-n", "shop")
    assert (
        "(ConfigMap shop/rescheduler-state): the daemon in namespace shop starts no more moves" in done.stdout
    )
    assert (
        done.stderr == "note: no daemon is installed or runs in namespace shop; one that starts is paused\n"
    )
    assert json.loads(rescheduler("status", "-o", "json").stdout)["pause"]["paused"] is False


def test_a_cluster_without_our_kind_is_shown_all_the_same(rescheduler):
    assert rescheduler("status").stdout.count("CRD") == 1, "it is missing, and that is said once"


def test_running_needs_our_kind(rescheduler):
    done = rescheduler("run", "--port", "0")
    assert done.exit_code == 1
    assert "Install it: rescheduler manifests" in done.stderr


def test_running_needs_a_valid_configuration(rescheduler, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("kind: Nonsense")
    assert rescheduler("run", "--config", config).exit_code == 2


def denying(*resources):
    """The API server's answers, with access to these resources denied."""

    def wrap(handle):
        async def answer(method, target, headers, body):
            if target.partition("?")[0].endswith("/selfsubjectaccessreviews"):
                asked = json.loads(body)["spec"]["resourceAttributes"]
                resource = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
                is_allowed = (asked["verb"], resource) not in resources
                return object_response(201, {**json.loads(body), "status": {"allowed": is_allowed}}, {})
            return await handle(method, target, headers, body)

        return answer

    return wrap


def test_it_says_which_commands_your_permissions_do_not_allow(run, tmp_path):
    objects = complete(lopsided().objects)
    refused = denying(("patch", "nodes"), ("create", "podmigrations"))
    with served(objects, tmp_path / "kubeconfig", refused) as kubeconfig:
        shown = run("status", "--kubeconfig", kubeconfig).stdout
        document = json.loads(run("status", "--kubeconfig", kubeconfig, "-o", "json").stdout)
    assert (
        "may not create podmigrations.rescheduler.dev: needed for `apply`, `move`, `drain`, `undo`" in shown
    )
    assert "may not patch nodes: needed for `drain` and `undrain`" in shown
    allowed, *_, roles, _ = document["permissions"]
    assert allowed.startswith("allow `plan`, `explain`, `snapshot`, `status`, ")
    assert "`pause`" in allowed
    assert "`drain`" not in allowed
    assert roles.startswith(
        "ClusterRole rescheduler-operator.kube-system and Role rescheduler-operator allow"
    )


def test_without_a_leader_it_says_what_you_need_to_make_moves_yourself(run, tmp_path):
    """An operator may create PodMigrations, but nothing makes the moves, and may not evict pods."""
    refused = denying(("create", "pods/eviction"), ("create", "pods"))
    with served(complete(lopsided().objects), tmp_path / "kubeconfig", refused) as kubeconfig:
        allowed, moves = json.loads(run("status", "--kubeconfig", kubeconfig, "-o", "json").stdout)[
            "permissions"
        ]
    assert allowed == "allow every command while the daemon leads"
    assert "`apply`, `move`, `drain` and `undo` make the moves themselves" in moves
    assert "you may not create pods, create pods/eviction. Start the daemon, or use its ClusterRole " in moves
    assert "rescheduler.kube-system and Role rescheduler: docs/permissions.md" in moves


def leader_objects(holder, leader, **status):
    """The Lease and the state, in which the last daemon that reported is `leader`."""
    at = {"namespace": "kube-system"}
    now = datetime.now(UTC)
    record = LeaseRecord(holder, 15, now, now, 0)
    reported = encode_state(DaemonStatus(leader=leader, **status))
    return [
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {**at, "name": "rescheduler"},
            "spec": lease_spec_of(record),
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {**at, "name": "rescheduler-state"},
            "data": {"status": reported},
        },
    ]


OPERATOR_DENIED = (("create", "pods/eviction"), ("delete", "customresourcedefinitions"))


@pytest.mark.parametrize(
    ("leader", "denied", "said", "kind"),
    [
        pytest.param("laptop_1", OPERATOR_DENIED, None, "", id="a daemon leads"),
        pytest.param(
            "daemon-1",
            OPERATOR_DENIED,
            "laptop_1 leads, which is a command and no daemon, so `apply`, `move`, `drain` and `undo` make "
            "the moves themselves when it has ended, and you may not create pods/eviction. Start the daemon",
            ", a command and no daemon",
            id="a command leads",
        ),
        pytest.param(
            "daemon-1", (), None, ", a command and no daemon", id="you may do all that the daemon does"
        ),
    ],
)
def test_permissions_to_make_moves_are_needed_unless_a_daemon_leads(
    run, tmp_path, leader, denied, said, kind
):
    """A command that leads ends with its moves; the next command has to make its moves itself."""
    objects = [*complete(lopsided().objects), *leader_objects("laptop_1", leader)]
    with served(objects, tmp_path / "kubeconfig", denying(*denied)) as kubeconfig:
        lines = run("status", "--kubeconfig", kubeconfig).stdout
        allowed, *rest = json.loads(run("status", "--kubeconfig", kubeconfig, "-o", "json").stdout)[
            "permissions"
        ]
    without = " but `uninstall` and `--install`, which need cluster-admin, while the daemon leads"
    assert allowed == "allow every command" + without * bool(denied)
    assert [each.startswith(said or "") for each in rest] == [True] * bool(said), rest
    assert f"Leader       laptop_1{kind}, renewed " in lines


def test_who_leads_is_unknown_without_permission_to_read_the_state(run, tmp_path):
    objects = [*complete(lopsided().objects), *leader_objects("laptop_1", "daemon-1")]
    refused = forbidding("rescheduler-state")
    with served(objects, tmp_path / "kubeconfig", refused) as kubeconfig:
        assert "Leader       laptop_1, renewed " in run("status", "--kubeconfig", kubeconfig).stdout


def test_a_dry_run_is_no_leader_and_can_be_switched_off(run, tmp_path):
    dry_run = DryRunEvidence(datetime.now(UTC), 1, ())
    objects = [*complete(lopsided().objects), *leader_objects("", "daemon-1", dry_run=dry_run)]
    with served(objects, tmp_path / "kubeconfig", denying(*OPERATOR_DENIED)) as kubeconfig:
        _, moves = json.loads(run("status", "--kubeconfig", kubeconfig, "-o", "json").stdout)["permissions"]
    assert moves.startswith("No daemon leads, so `apply`, ")
    assert "you may not create pods/eviction. Switch the dry run off, or use its ClusterRole" in moves


def test_without_a_leader_it_says_so_if_your_permissions_suffice_to_make_moves(rescheduler):
    assert "Permissions  allow every command\n" in rescheduler("status").stdout


def test_what_you_may_not_read_is_named_and_the_rest_is_shown(run, tmp_path):
    with served(complete(lopsided().objects), tmp_path / "kubeconfig", forbidding("nodes")) as kubeconfig:
        done = run("status", "--kubeconfig", kubeconfig)
    assert done.exit_code == 0, done.output
    assert "unknown: " in done.stdout
    assert 'cannot list resource "nodes"' in done.stdout
    assert "Permissions  allow every command\n" in done.stdout


def test_what_you_may_not_read_is_unknown_and_not_absent(run, tmp_path):
    hidden = ("nodes", "v1alpha1/podmigrations", "rescheduler-state", "leases/rescheduler")
    objects = [*complete(lopsided().objects), *leader_objects("daemon-1", "daemon-1")]
    refused = denying(("list", "podmigrations"), *OPERATOR_DENIED)

    def wrap(handle):
        return forbidding(*hidden)(refused(handle))

    with served(objects, tmp_path / "kubeconfig", wrap) as kubeconfig:
        lines = run("status", "-n", "kube-system", "--kubeconfig", kubeconfig).stdout.splitlines()
    for title in ("Leader", "Last check", "Halts", "Nodes", "Migrations"):
        assert f"{title:<13}unknown: you have no permission to read it" in lines
    assert not [line for line in lines if "No daemon leads" in line], "the Lease is not known"


def test_before_the_installation_it_says_what_to_do(rescheduler):
    shown = rescheduler("status").stdout
    command = "rescheduler manifests --create-namespace --image IMAGE | kubectl apply -f -"
    assert f"not in the cluster: run `{command}`" in shown
    assert "no PodMigration CRD: run `rescheduler manifests --crd | kubectl apply -f -`" in shown
    assert "no webhook is registered" in shown.lower()


def test_an_image_that_can_not_be_pulled_is_named(run, tmp_path):
    items = install_manifests(namespace="ops", configuration="")
    ours = [each for each in items if each["kind"] in {"ClusterRoleBinding", "ConfigMap", "Deployment"}]
    made = lopsided()
    made.pod("ops/rescheduler-1", on="worker-1")
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
    for item in made.objects:
        if item["metadata"]["name"] == "rescheduler-1":
            item["metadata"]["labels"] = labels("daemon")
            item["status"]["containerStatuses"] = [
                {
                    "name": "main",
                    "state": waiting,
                    "ready": False,
                    "restartCount": 0,
                    "image": "x",
                    "imageID": "",
                }
            ]
    with served(complete([*made.objects, *ours]), tmp_path / "kubeconfig") as kubeconfig:
        shown = run("status", "--kubeconfig", kubeconfig).stdout
    assert re.search(r"in namespace ops, 0/2 ready: rescheduler-1: ErrImagePull not found", shown), shown


# -- the PodMigration CRD


def without(path):
    """The CRD of this version without one part."""
    crd = podmigration_crd()
    *parents, last = path.split(".")
    part = crd["spec"]["versions"][0]
    for name in parents:
        part = part[name]
    del part[last]
    return crd


FIELDS = "schema.openAPIV3Schema.properties"


@pytest.mark.parametrize(
    ("path", "missing"),
    [
        pytest.param(f"{FIELDS}.spec.properties.rooms", "spec.rooms", id="a field"),
        pytest.param(
            f"{FIELDS}.spec.properties.rooms.items.properties.node", "spec.rooms.node", id="a field of a list"
        ),
        pytest.param(f"{FIELDS}.status", "status", id="a whole part, without the fields below it"),
        pytest.param("subresources.scale", "subresource scale", id="a subresource"),
        pytest.param("served", "version v1alpha1", id="the version"),
    ],
)
def test_an_older_crd_lacks_what_this_version_needs(path, missing):
    assert missing_crd_parts(without(path)) == [missing]


def test_a_value_that_an_older_crd_does_not_allow_is_named():
    crd = podmigration_crd()
    phase = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"][
        "phase"
    ]
    phase["enum"].remove("Failed")
    assert missing_crd_parts(crd) == ["status.phase=Failed"]


def test_a_newer_crd_lacks_nothing():
    crd = podmigration_crd()
    assert missing_crd_parts(crd) == []
    fields = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    fields["fromTheFuture"] = {"type": "string"}
    assert missing_crd_parts(crd) == []


def installed(crd, tmp_path, *more):
    return served([*complete(lopsided().objects), crd], tmp_path / "kubeconfig", *more)


def test_an_outdated_crd_is_reported_with_the_command_that_updates_it(run, tmp_path):
    """The API server drops fields that the CRD does not have, so nothing else would report it."""
    with installed(without(f"{FIELDS}.spec.properties.rooms"), tmp_path) as kubeconfig:
        shown = run("status", "--kubeconfig", kubeconfig).stdout
    assert (
        "PodMigration CRD v1alpha1 is outdated: it lacks spec.rooms. "
        "To update it, run `rescheduler manifests --crd | kubectl apply -f -`"
    ) in shown


def test_a_crd_of_this_version_is_up_to_date(run, tmp_path):
    with installed(podmigration_crd(), tmp_path) as kubeconfig:
        shown = run("status", "--kubeconfig", kubeconfig).stdout
    assert "PodMigration CRD v1alpha1\n" in shown


def test_status_works_without_the_permission_to_read_the_crd(run, tmp_path):
    wrap = forbidding(PODMIGRATION_CRD_NAME)
    with installed(podmigration_crd(), tmp_path, wrap) as kubeconfig:
        done = run("status", "--kubeconfig", kubeconfig)
    assert done.exit_code == 0, done.output
    assert "PodMigration CRD v1alpha1, not known whether it is up to date: " in done.stdout
    assert "Nodes " in done.stdout


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        pytest.param(True, "webhook answers", id="it answers"),
        pytest.param(False, "webhook does not steer: ", id="it is dead"),
    ],
)
def test_it_says_whether_the_webhook_is_reached(run, tmp_path, answers, said):
    steering, _ = webhook_configurations(UrlAddress("https://webhook.invalid"))
    objects = [*complete(lopsided().objects), steering]
    with served(objects, tmp_path / "kubeconfig", webhooks=Answering() if answers else None) as kubeconfig:
        shown = run("status", "--kubeconfig", kubeconfig).stdout
    assert said in shown, shown


def test_node_autoscalers_are_shown_with_how_they_were_found():
    seen = (DetectedAutoscaler("karpenter", "2 NodePools, 4 nodes"),)
    assert (
        "Autoscalers  Karpenter: 2 NodePools, 4 nodes"
        in shown(msgspec.structs.replace(STATUS, autoscalers=seen)).splitlines()
    )
