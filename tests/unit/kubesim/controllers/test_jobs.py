"""Jobs and CronJobs run pods until enough of them have succeeded."""

import asyncio
import itertools
from datetime import UTC, datetime

import pytest

from kubesim.behaviour import load_behaviour
from kubesim.controllers.cron_job_controller import next_time
from kubesim.controllers.job_status import parse_indexes, show_indexes
from tests.unit.kubesim.controllers.conftest import names

QUICK = {"startup": "1s", "termination": "0s", "run": {"lasts": "2s", "exitCode": 0}}
FAILING = {"startup": "1s", "termination": "0s", "run": {"lasts": "2s", "exitCode": 1}}


def job(name="work", **spec):
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    return {"metadata": {"name": name}, "spec": {"template": {"spec": pod}, **spec}}


def behave(sim, rule):
    sim.kubelets._behaviour = load_behaviour({"pods": [rule]})


def condition(found, type_):
    return next(
        (item for item in found.get("status", {}).get("conditions", ()) if item["type"] == type_), None
    )


async def until_over(sim, result, name="work", seconds=600):
    async def is_over():
        found = await sim.get("jobs", name)
        return found if condition(found, result) else None

    return await sim.until(is_over, seconds)


class TestJobs:
    async def test_one_pod_that_succeeds_completes_it(self, sim):
        behave(sim, QUICK)
        await sim.create("jobs", job())
        done = await until_over(sim, "Complete")
        status = done["status"]
        assert (status["succeeded"], status["uncountedTerminatedPods"]) == (1, {})
        assert status["completionTime"] > status["startTime"]
        assert condition(done, "SuccessCriteriaMet")["reason"] == "CompletionsReached"
        (pod,) = await sim.pods()
        assert pod["metadata"].get("finalizers") is None
        assert pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "work"

    async def test_no_more_pods_run_at_once_than_allowed(self, sim):
        behave(sim, QUICK)
        most = []

        def count(kind, _):
            if kind.name == "Pod":
                pods = sim.server.store.collection(kind).ordered("default")
                most.append(sum(pod.fields["status.phase"] in {"Pending", "Running"} for pod in pods))

        sim.server.store.observers.append(count)
        await sim.create("jobs", job(parallelism=2, completions=5))
        done = await until_over(sim, "Complete")
        assert (max(most), done["status"]["succeeded"]) == (2, 5)

    async def test_too_many_failures_end_it_and_each_is_waited_for_longer(self, sim):
        behave(sim, FAILING)
        await sim.create("jobs", job(backoffLimit=2))
        done = await until_over(sim, "Failed")
        failed = condition(done, "Failed")
        assert (failed["reason"], failed["message"]) == (
            "BackoffLimitExceeded",
            "Job has reached the specified backoff limit",
        )
        assert done["status"]["failed"] == 3
        times = sorted(
            datetime.fromisoformat(pod["metadata"]["creationTimestamp"]) for pod in await sim.pods()
        )
        gaps = [(after - before).total_seconds() for before, after in itertools.pairwise(times)]
        assert gaps[0] >= 10
        assert gaps[1] >= 20

    async def test_a_deleted_pod_counts_as_failed_and_is_replaced(self, sim):
        await sim.create("jobs", job())
        (pod,) = await sim.until_ready(1)
        await sim.delete("pods", pod["metadata"]["name"])
        await asyncio.sleep(15)
        (successor,) = await sim.pods()
        assert successor["metadata"]["uid"] != pod["metadata"]["uid"]
        assert (await sim.get("jobs", "work"))["status"]["failed"] == 1

    async def test_a_deadline_ends_it(self, sim):
        await sim.create("jobs", job(activeDeadlineSeconds=30))
        done = await until_over(sim, "Failed", seconds=60)
        assert condition(done, "Failed")["reason"] == "DeadlineExceeded"
        assert not await sim.pods()

    async def test_indexed_ones_have_a_pod_per_index(self, sim):
        behave(sim, QUICK)
        await sim.create("jobs", job(completions=3, parallelism=3, completionMode="Indexed"))
        done = await until_over(sim, "Complete")
        assert done["status"]["completedIndexes"] == "0-2"
        indexes = {
            pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]
            for pod in await sim.pods()
        }
        assert indexes == {"0", "1", "2"}

    async def test_suspended_ones_have_no_pods(self, sim):
        await sim.create("jobs", job())
        await sim.until_ready(1)
        await sim.patch("jobs", "work", {"spec": {"suspend": True}})
        await sim.until_ready(0)
        assert condition(await sim.get("jobs", "work"), "Suspended")["status"] == "True"
        await sim.patch("jobs", "work", {"spec": {"suspend": False}})
        await sim.until_ready(1)

    async def test_finished_ones_go_when_their_time_is_over(self, sim):
        behave(sim, QUICK)
        await sim.create("jobs", job(ttlSecondsAfterFinished=60))
        await until_over(sim, "Complete")
        await asyncio.sleep(70)
        assert not await sim.all("jobs")
        assert not await sim.pods()


@pytest.mark.parametrize(
    ("indexes", "shown"),
    [([], ""), ([3], "3"), ([0, 1, 2, 5], "0-2,5"), ([1, 3, 4], "1,3,4"), ([0, 1], "0,1")],
)
def test_indexes_are_written_as_ranges(indexes, shown):
    assert show_indexes(indexes) == shown
    assert parse_indexes(shown) == {*indexes}


class TestCronJobs:
    def cron_job(self, **spec):
        return {
            "metadata": {"name": "tick"},
            "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": job()["spec"]}, **spec},
        }

    async def test_a_job_each_time_that_the_schedule_says_so(self, sim):
        behave(sim, QUICK)
        await sim.create("cronjobs", self.cron_job())
        await asyncio.sleep(11 * 60)
        jobs = await sim.all("jobs")
        minutes = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) // 60
        assert names(jobs) == [f"tick-{minutes + 5}", f"tick-{minutes + 10}"]
        status = (await sim.get("cronjobs", "tick"))["status"]
        assert status["lastScheduleTime"] == "2026-01-01T00:10:00Z"
        assert status["lastSuccessfulTime"] > status["lastScheduleTime"]
        assert "active" not in status

    async def test_keeps_the_last_three(self, sim):
        behave(sim, QUICK)
        await sim.create("cronjobs", self.cron_job())
        await asyncio.sleep(3600 + 30)
        assert len(await sim.all("jobs")) == 3

    @pytest.mark.parametrize(("policy", "count"), [("Allow", 2), ("Forbid", 1), ("Replace", 1)])
    async def test_one_that_still_runs(self, sim, policy, count):
        await sim.create("cronjobs", self.cron_job(concurrencyPolicy=policy))
        await asyncio.sleep(11 * 60)
        assert len(await sim.all("jobs")) == count

    async def test_nothing_while_it_is_suspended(self, sim):
        await sim.create("cronjobs", self.cron_job(suspend=True))
        await asyncio.sleep(3600)
        assert not await sim.all("jobs")


@pytest.mark.parametrize(
    ("schedule", "zone", "expected"),
    [
        ("* * * * *", "UTC", "2026-03-10T12:31:00+00:00"),
        ("0 * * * *", "UTC", "2026-03-10T13:00:00+00:00"),
        ("30 12 * * *", "UTC", "2026-03-11T12:30:00+00:00"),
        ("0 0 1 * *", "UTC", "2026-04-01T00:00:00+00:00"),
        ("0 9 * * mon-fri", "UTC", "2026-03-11T09:00:00+00:00"),
        ("0 0 13 * fri", "UTC", "2026-03-13T00:00:00+00:00"),
        ("0 0 29 feb *", "UTC", "2028-02-29T00:00:00+00:00"),
        ("@weekly", "UTC", "2026-03-15T00:00:00+00:00"),
        ("10-50/20 12 * * *", "UTC", "2026-03-10T12:50:00+00:00"),
        ("0 9 * * *", "Asia/Tokyo", "2026-03-11T00:00:00+00:00"),
    ],
)
def test_the_next_time(schedule, zone, expected):
    now = datetime(2026, 3, 10, 12, 30, 5, tzinfo=UTC)
    assert next_time(schedule, now, zone).isoformat() == expected
