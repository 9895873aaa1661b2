"""What the docs print is what the commands print."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rescheduler.api.daemon_status import (
    DaemonStatus,
    DryRunEvidence,
    Halt,
    HaltReason,
    LastCheck,
    NodeLoad,
    Pause,
    ResourceBalance,
    SpreadChange,
)
from rescheduler.api.podmigration import Handover
from rescheduler.cli import COMMANDS
from rescheduler.cli.plan_view import plan_lines
from rescheduler.cli.status_view import ObservedStatus, status_lines
from rescheduler.cli.terminal import Terminal
from rescheduler.install.install_options import Options
from rescheduler.install.manifests import install_manifests
from rescheduler.kube.leader_election import LeaseRecord
from rescheduler.planner.plan import Move, Plan, Rejection
from rescheduler.planner.reasons import Reason

ROOT = Path(__file__).parents[3]
NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
DAEMON = "rescheduler-6f5b6e91-x2x7k"
INSTALLED = ("in namespace rescheduler, 2/2 ready", "PodMigration CRD v1alpha1", "webhook answers")


def printed(page, command):
    """Return the output after each occurrence of the command on a page."""
    text = (ROOT / page).read_text()
    return [
        found.split("\n$ ")[0].rstrip("\n").splitlines()
        for found in re.findall(rf"^\$ {re.escape(command)}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    ]


def assert_shown(sample, lines):
    """Every line of the sample is printed, in this order; `…` stands for any other lines."""
    place = 0
    for number, line in enumerate(sample):
        if line == "…":
            continue
        follows = number == 0 or sample[number - 1] != "…"
        assert line in lines[place:], f"not printed: {line}\n" + "\n".join(lines)
        at = lines.index(line, place)
        assert at == place or not follows, f"not printed after {line}: {lines[place]}"
        place = at + 1


def ago(**span):
    return NOW - timedelta(**span)


def status_of(seconds, took_s, moves, loads, *, halts=(), migrations=(), **more):
    balance = tuple(
        ResourceBalance(name, mean, NodeLoad(least, low), NodeLoad(most, high))
        for name, mean, least, low, most, high in loads
    )
    check = LastCheck(ago(seconds=seconds), took_s, moves=moves, refused={}, usage_source="requests")
    status = DaemonStatus(
        leader=DAEMON, version="0.2.0", updated=NOW, last_check=check, balance=balance, halts=halts
    )
    lease = LeaseRecord(DAEMON, 15, NOW, ago(seconds=more.pop("renewed", 1)), 0)
    found = ObservedStatus(
        "rescheduler", Pause(), status, lease, migrations, {}, 2, 0, None, INSTALLED,
        ("allow every command",),
    )  # fmt: skip
    return list(status_lines(found, Terminal(), NOW))


def migration(name):
    return {
        "metadata": {
            "namespace": "shop",
            "name": name,
            "creationTimestamp": ago(seconds=26).isoformat().replace("+00:00", "Z"),
        },
        "spec": {
            "pod": {"name": name, "uid": name},
            "sourceNode": "worker-1",
            "targetNode": "worker-2",
            "strategy": "LoadBalancing",
        },
        "status": {
            "phase": "Completed",
            "step": "Completed",
            "message": "moved",
            "finishedAt": ago(seconds=1).isoformat().replace("+00:00", "Z"),
        },
    }


def test_the_status_of_a_paused_and_of_a_working_daemon():
    paused, working = printed("docs/operating.md", "rescheduler status")
    words = "paused by root@vm: load test until four"
    halt = Halt(HaltReason.PAUSED, ago(seconds=25), words, "when you run `rescheduler resume`")
    hot = [
        ("cpu", 65.0, "worker-2", 45.0, "worker-1", 85.0),
        ("memory", 10.2, "worker-2", 7.0, "worker-1", 13.3),
    ]
    assert status_of(1, 0.2, 2, hot, halts=(halt,)) == paused
    even = [
        ("cpu", 65.0, "worker-2", 55.0, "worker-1", 75.0),
        ("memory", 10.2, "worker-2", 8.6, "worker-1", 11.7),
    ]
    done = [migration("web-7dd7cf59bb-8pdnd-2ws95klh"), migration("web-7dd7cf59bb-526cm-tq77trvr")]
    assert status_of(5, 0.12, 0, even, migrations=done, renewed=2) == working


def test_the_status_of_a_dry_run():
    (sample,) = printed("docs/installing.md", "rescheduler status")
    spreads = (SpreadChange("cpu", 69.0, 17.0), SpreadChange("memory", 31.0, 19.0))
    status = DaemonStatus(
        leader=DAEMON,
        version="0.2.0",
        updated=NOW,
        last_check=LastCheck(
            ago(seconds=1), 0.16, moves=4, refused={"BudgetSpent": 1}, usage_source="metrics"
        ),
        dry_run=DryRunEvidence(ago(seconds=36), 4, spreads),
    )
    found = ObservedStatus("rescheduler", Pause(), status, LeaseRecord(), (), {}, 6, 0, None, INSTALLED)
    assert_shown(sample, list(status_lines(found, Terminal(), NOW)))


def test_a_plan_that_undoes_another():
    (sample,) = printed("docs/history.md", "rescheduler undo --plan ef964a1d")
    told = [
        ("shop/cart-668f6779d-bvj78", "worker-2", "cart-668f6779d-9hjfv-xdntlmsb", 0),
        ("shop/web-6649fd57f5-bj2db", "worker-1", "web-6649fd57f5-kwtfg-slw6ktd7", 0),
        ("shop/web-6649fd57f5-cjqj7", "worker-2", "web-6649fd57f5-gnjmp-mrgbjjsm", 1),
    ]
    moves = tuple(
        Move(
            pod=pod, uid=pod, source="worker-6", target=target, strategy="Manual", handover=Handover.ADOPT,
            reason=f"undo of {undone}", gain=0.0, wave=wave,
        )
        for pod, target, undone, wave in told
    )  # fmt: skip
    taken_at = datetime(2026, 11, 17, 17, 25, 1, tzinfo=UTC).timestamp()
    lines = list(plan_lines(Plan(taken_at_s=taken_at, moves=moves), Terminal()))
    assert sample[0] == lines[0]
    start = sample.index("")
    assert sample[start : start + 5] == lines[1:6]


def test_a_strategy_that_raises():
    (sample,) = printed(
        "docs/strategies.md", "rescheduler plan --strategy LeavePool --strategy LoadBalancing"
    )
    detail = "LeavePool raised KeyError: 'pool' at /opt/plugins/leave_pool.py:21"
    refused = Rejection("", Reason.STRATEGY_FAILED, by="LeavePool", detail=detail)
    plan = Plan(taken_at_s=0, refused=(refused,), refused_counts={Reason.STRATEGY_FAILED: 1})
    assert_shown(sample, list(plan_lines(plan, Terminal())))


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_about_permissions_names_every_command(name):
    table = (ROOT / "docs" / "permissions.md").read_text().partition("| command |")[2].partition("\n\n")[0]
    commands = [
        cell for row in table.splitlines()[2:] for cell in re.findall(r"`([^`]+)`", row.split("|")[1])
    ]
    assert name in {each.split()[0] for each in commands}


def test_the_roles_that_users_are_told_to_bind_are_installed():
    text = (ROOT / "docs" / "permissions.md").read_text()
    bound = {
        ("ClusterRole", name) for name in re.findall(r"--clusterrole=(\S+)", text)
    } | {("Role", name) for name in re.findall(r"--role=(\S+)", text)}  # fmt: skip
    installed = {(item["kind"], item["metadata"]["name"]) for item in install_manifests(Options())}
    assert bound
    assert bound <= installed
