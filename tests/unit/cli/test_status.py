"""`rescheduler status`, `pause` and `resume`, and what is shown of what the leader wrote."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from rescheduler.api.daemon_status import (
    DaemonStatus,
    FailingPod,
    Halt,
    HaltReason,
    LastCheck,
    NodeInMaintenance,
    NodeLoad,
    Pause,
    ResourceBalance,
    SuspectNode,
)
from rescheduler.cli.status_view import ObservedStatus, status_document, status_lines
from rescheduler.cli.terminal import Terminal
from rescheduler.kube.leader_election import LeaseRecord

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


def found(status=STATUS, lease=LEASE, pause=Pause(), migrations=(), in_maintenance=()):  # noqa: B008
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
            "Migrations   none",
        ]
    )


def test_nobody_leads():
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


def test_what_is_wrong():
    status = DaemonStatus(
        configuration="config.yaml: 1 error\n  line 6: too much",
        failing=(FailingPod("shop/web-1", "node-1", "CrashLoopBackOff", 1, 3),),
        suspects=(SuspectNode("node-1", 4),),
        maintenance=(
            NodeInMaintenance("node-2", 3, ("shop/db-0: BudgetSpent",)),
            NodeInMaintenance("node-3", 0),
        ),
    )
    told = shown(status, in_maintenance=("node-2", "node-4"))
    assert (
        "Config       invalid change ignored: config.yaml: 1 error\n             line 6: too much\n" in told
    )
    assert "Failing      shop/web-1 on node-1: CrashLoopBackOff, attempt 1 of 3" in told
    assert "Suspect      node-1: 4 workloads failing there" in told
    assert "Maintenance  node-2: 3 pods left; blocked: shop/db-0: BudgetSpent" in told
    assert "             node-3: empty" in told
    assert "node-4: has the maintenance label, but the daemon has not reported on it yet" in told


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
    paused = rescheduler("pause", "--why", "the fair")
    assert paused.exit_code == 0, paused.output
    assert "ConfigMap kube-system/rescheduler-state" in paused.stdout
    pause = json.loads(rescheduler("status", "-o", "json").stdout)["pause"]
    assert (pause["paused"], pause["why"]) == (True, "the fair")
    assert rescheduler("resume").exit_code == 0
    pause = json.loads(rescheduler("status", "-o", "json").stdout)["pause"]
    assert pause["paused"] is False
    assert pause["at"], "since then failures count"


def test_the_namespace_can_be_named(rescheduler):
    assert "ConfigMap shop/rescheduler-state" in rescheduler("pause", "-n", "shop").stdout
    assert json.loads(rescheduler("status", "-o", "json").stdout)["pause"]["paused"] is False


def test_a_cluster_without_our_kind_is_shown_all_the_same(rescheduler):
    assert "the PodMigration CRD is not installed" in rescheduler("status").stdout


def test_running_needs_our_kind(rescheduler):
    done = rescheduler("run", "--port", "0")
    assert done.exit_code == 1
    assert "Install it: rescheduler manifests" in done.stderr


def test_running_needs_a_valid_configuration(rescheduler, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("kind: Nonsense")
    assert rescheduler("run", "--config", config).exit_code == 2
