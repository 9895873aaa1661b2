"""`rescheduler apply` and `migrations`, over HTTP, on a running simulated cluster."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

from rescheduler.cluster.codecs.record_resources import NODES
from rescheduler.kube.access import cluster_config
from rescheduler.kube.api_resources import merge_patch
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from tests.unit.cli.live_cluster import write_config
from tests.unit.cli.other_executor import executing_elsewhere

CORDONED = merge_patch({"spec": {"unschedulable": True}})


def changed_in(kubeconfig, change):
    """Change it meanwhile, as another client does."""

    async def changed():
        async with HttpTransport(cluster_config.load_cluster_access(str(kubeconfig))) as network:
            await change(Client(network))

    asyncio.run(changed())


def test_a_plan_is_shown_made_and_summed_up(rescheduler):
    done = rescheduler("apply", "--yes", "--install")
    assert done.exit_code == 0, done.output
    assert "Completed" in done.stdout
    assert done.stdout.rstrip().endswith("moves made.")
    listed = rescheduler("migrations")
    assert listed.exit_code == 0
    assert "LoadBalancing" in listed.stdout
    name = json.loads(rescheduler("migrations", "-o", "json").stdout)["items"][0]["metadata"]["name"]
    story = rescheduler("migrations", name, "-n", "shop").stdout
    assert "handed over: the pod was evicted" in story
    assert "finished: Completed" in story
    late = rescheduler("migrations", name, "-n", "shop", "--cancel")
    assert late.exit_code == 1
    assert "it is already Completed" in late.stderr


def test_nothing_is_moved_without_confirmation(rescheduler):
    done = rescheduler("apply", "--install", stdin="n\n")
    assert done.exit_code == 1
    assert "nothing was moved" in done.stderr
    assert json.loads(rescheduler("migrations", "-o", "json").stdout)["items"] == []


def test_a_saved_plan_is_carried_out_and_what_is_gone_by_then_fails_by_itself(rescheduler, tmp_path):
    file = tmp_path / "plan.json"
    assert rescheduler("plan", "--save", file).exit_code == 3
    plan = json.loads(file.read_text())
    plan["moves"][0]["uid"] = "of-another-pod"
    file.write_text(json.dumps(plan))
    done = rescheduler("apply", file, "--yes", "--install", "-o", "json")
    assert done.exit_code == 1, done.output
    first, *others = json.loads(done.stdout)["moves"]
    assert first["result"] == "Failed"
    assert "no longer exists" in first["message"]
    assert {each["result"] for each in others} == {"Completed"}


def test_the_age_of_a_saved_plan_is_printed(rescheduler, tmp_path):
    """Who applies an old plan learns that not everything in it may still happen."""
    file = tmp_path / "plan.json"
    assert rescheduler("plan", "--save", file).exit_code == 3
    plan = json.loads(file.read_text())
    plan["takenAt"] = (datetime.now(UTC) - timedelta(hours=3, minutes=5, seconds=7)).isoformat()
    file.write_text(json.dumps(plan))
    done = rescheduler("apply", file, "--install", stdin="n\n")
    assert "note: the plan was made 3h5m ago: moves are checked again against the cluster\n" in done.stderr
    assert "the plan was made" not in rescheduler("apply", "--install", stdin="n\n").stderr


def test_a_file_that_is_no_plan_is_refused_before_anything_is_asked(rescheduler, tmp_path):
    file = tmp_path / "plan.json"
    file.write_text("{}")
    done = rescheduler("apply", file, "--yes")
    assert done.exit_code == 1
    assert "is not a valid plan" in done.stderr
    assert "rescheduler plan --save FILE" in done.stderr


def test_a_configuration_that_says_dry_run_moves_nothing(run, cluster, tmp_path):
    config = write_config(tmp_path / "dry.json", dryRun=True)
    done = run("apply", "--yes", "--kubeconfig", cluster, "--config", config)
    assert done.exit_code == 2
    assert "dryRun" in done.stderr


def test_while_a_daemon_holds_the_lease_it_only_asks_and_follows(rescheduler, cluster, tmp_path):
    config = write_config(tmp_path / "config.json")
    at = "kube-system/rescheduler"
    with executing_elsewhere(cluster, config, me="the-daemon", lease_at=at):
        done = rescheduler("apply", "--yes")
    assert done.exit_code == 0, done.output
    assert f"the-daemon holds the Lease {at} and makes the moves" in done.stderr
    assert "2 of 2 moves made." in done.stdout


def test_moves_of_a_saved_plan_are_revalidated(rescheduler, cluster, tmp_path):
    """Refusals are reported with a remedy."""
    file = tmp_path / "plan.json"
    assert rescheduler("plan", "--save", file).exit_code == 3
    first, second = json.loads(file.read_text())["moves"]
    assert first["to"] != second["to"]
    changed_in(cluster, lambda client: client.patch(NODES, first["to"], CORDONED))
    done = rescheduler("apply", file, "--yes", "--install")
    assert done.exit_code == 1, done.output
    assert "1 of 2 moves made, 1 failed." in done.stdout
    reported = done.stdout.partition("1 failed.")[2]
    assert f"{first['pod']}: " in reported
    assert "cordoned" in reported
    assert second["pod"] not in reported
