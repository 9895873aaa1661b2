"""Jobs and CronJobs: pods that are to end, and how often."""

import re
from typing import Any

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import CRON_JOBS, JOBS, Object, merge_patch
from tests.conformance.living import LivingWorld, condition, conditions, numbers, staying
from tests.conformance.scenario import living

ENDS = {"run": {"lasts": "0s"}}
FAILS = {"run": {"lasts": "0s", "exitCode": 1}}


def _job(world: LivingWorld, name: str = "work", **spec: Any) -> Object:
    template = {"metadata": {"labels": {"app": name}}, "spec": world.pod_spec(restartPolicy="Never")}
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


async def _over(world: LivingWorld, how: str, name: str = "work") -> Object:
    return await world.until_one(JOBS, name, lambda found: condition(found, how).get("status") == "True")


def _told(job: Object) -> list[Object]:
    """All that a Job says of itself at its end but the times."""
    status = job["status"]
    more = {key: status.get(key) for key in ("completedIndexes", "failedIndexes", "uncountedTerminatedPods")}
    return [numbers(job), {key: value for key, value in more.items() if value is not None}]


async def _phases(world: LivingWorld) -> list[str]:
    found = (await world.client.list(PODS.as_json, namespace=world.namespace)).items
    return sorted(pod["status"]["phase"] for pod in found)


@living("a Job runs so many pods at a time until so many have succeeded")
async def completions(world: LivingWorld) -> None:
    world.behave(ENDS)
    made = await world.create(JOBS, _job(world, completions=3, parallelism=2))
    done = await _over(world, "Complete")
    world.saw("status", _told(done))
    world.saw("conditions", conditions(done))
    world.saw("times", sorted(key for key in done["status"] if key.endswith("Time")))
    found = (await world.client.list(PODS.as_json, namespace=world.namespace)).items
    world.saw("pods", await _phases(world))
    labels = {key for key in found[0]["metadata"]["labels"] if "topology" not in key}
    world.saw("labels", sorted(labels))
    world.saw("finalizers", [pod["metadata"].get("finalizers") for pod in found])
    world.saw("selector", sorted(made["spec"]["selector"]["matchLabels"]))


@living("while a Job runs it counts its active and ready pods, never more than may run at a time")
async def running(world: LivingWorld) -> None:
    await world.create(JOBS, _job(world, completions=5, parallelism=2))
    busy = await world.until_one(JOBS, "work", lambda found: found["status"].get("ready") == 2)
    world.saw("status", _told(busy))
    (pod, _) = await world.until_pods(2)
    world.saw("finalizers", pod["metadata"].get("finalizers"))
    await world.client.patch(JOBS, world.key("work"), merge_patch({"spec": {"parallelism": 1}}))
    fewer = await world.until_one(
        JOBS, "work", lambda found: [found["status"].get(key) for key in ("active", "ready")] == [1, 1]
    )
    world.saw("fewer at a time", numbers(fewer).get("active"))
    world.saw("pods", len(await world.until_pods(1)))


@living("a Job whose pods fail more often than it may is given up")
async def given_up(world: LivingWorld) -> None:
    world.behave(FAILS)
    await world.create(JOBS, _job(world, backoffLimit=0))
    failed = await _over(world, "Failed")
    world.saw("status", _told(failed))
    world.saw("conditions", conditions(failed))
    world.saw("pods", await _phases(world))


@living("a pod that failed is replaced, and the Job succeeds in the end")
async def second_try(world: LivingWorld) -> None:
    world.behave(FAILS)
    await world.create(JOBS, _job(world, backoffLimit=3))
    await world.until_one(JOBS, "work", lambda found: found["status"].get("failed") == 1)
    world.behave(ENDS)
    done = await _over(world, "Complete")
    world.saw("conditions", conditions(done))
    world.saw("status", _told(done))
    world.saw("pods", await _phases(world))


@living("an indexed Job has a pod for each index")
async def indexed(world: LivingWorld) -> None:
    world.behave(ENDS)
    await world.create(JOBS, _job(world, completions=3, parallelism=3, completionMode="Indexed"))
    done = await _over(world, "Complete")
    world.saw("status", _told(done))
    found = (await world.client.list(PODS.as_json, namespace=world.namespace)).items
    key = "batch.kubernetes.io/job-completion-index"
    world.saw("indexes", sorted(pod["metadata"]["annotations"][key] for pod in found))
    world.saw("in labels too", sorted(pod["metadata"]["labels"][key] for pod in found))
    names = sorted(pod["metadata"]["name"] for pod in found)
    world.saw("names", [name.rpartition("-")[0] for name in names])
    world.saw("hostnames", sorted(pod["spec"]["hostname"] for pod in found))


@living("a suspended Job runs nothing, and ends what runs")
async def suspended(world: LivingWorld) -> None:
    await world.create(JOBS, _job(world))
    await world.until_one(JOBS, "work", lambda found: found["status"].get("ready") == 1)
    await world.client.patch(JOBS, world.key("work"), merge_patch({"spec": {"suspend": True}}))
    await world.until_pods(0)
    idle = await world.until_one(
        JOBS, "work", lambda found: not any(found["status"].get(key) for key in ("active", "terminating"))
    )
    world.saw("status", _told(idle))
    world.saw("conditions", conditions(idle))
    world.behave(ENDS)
    await world.client.patch(JOBS, world.key("work"), merge_patch({"spec": {"suspend": False}}))
    done = await _over(world, "Complete")
    world.saw("resumed", conditions(done))


@living("a Job that takes too long is ended with all its pods")
async def too_long(world: LivingWorld) -> None:
    await world.create(JOBS, _job(world, activeDeadlineSeconds=1, parallelism=2))
    failed = await _over(world, "Failed")
    world.saw("conditions", conditions(failed))
    world.saw("status", _told(failed))
    world.saw("pods left", len(staying((await world.until(PODS, lambda found: not found)).values())))


@living("without a number of completions the first success is the last pod's")
async def work_queue(world: LivingWorld) -> None:
    world.behave(ENDS)
    await world.create(JOBS, _job(world, parallelism=2))
    done = await _over(world, "Complete")
    world.saw("conditions", conditions(done))
    world.saw("active", done["status"].get("active"))


@living("a CronJob makes a Job when its minute comes")
async def cron_job(world: LivingWorld) -> None:
    job = {"spec": _job(world)["spec"]}
    wanted = {"metadata": {"name": "nightly"}, "spec": {"schedule": "* * * * *", "jobTemplate": job}}
    await world.create(CRON_JOBS, wanted)
    found = await world.until(JOBS, lambda jobs: len(jobs) == 1, within_s=90)
    ((name, made),) = found.items()
    world.saw("name", re.sub(r"\d+", "MINUTE", name))
    (owner,) = made["metadata"]["ownerReferences"]
    world.saw("owner", [owner["kind"], owner["name"], owner.get("controller")])
    world.saw("annotations", sorted(made["metadata"]["annotations"]))
    told = await world.until_one(CRON_JOBS, "nightly", lambda each: each["status"].get("active"))
    world.saw("status", sorted(told["status"]))
    (active,) = told["status"]["active"]
    world.saw("active", [active["kind"], active["name"] == name])
    await world.until_pods(1)
    world.behave(ENDS)
    await _over(world, "Complete", name)
    after = await world.until_one(CRON_JOBS, "nightly", lambda each: not each["status"].get("active"))
    world.saw("status after it", sorted(after["status"]))


@living("a Job is gone so long after its end as it says, with its pods")
async def time_to_live(world: LivingWorld) -> None:
    world.behave(ENDS)
    await world.create(JOBS, _job(world, ttlSecondsAfterFinished=1))
    await world.gone(JOBS, "work")
    await world.until_pods(0)
    world.saw("left", 0)


@living("a Job that is deleted takes its pods along, finished ones too")
async def deleted(world: LivingWorld) -> None:
    await world.create(JOBS, _job(world, parallelism=2, completions=2))
    await world.until_pods(2)
    await world.client.delete(JOBS, world.key("work"), propagation="Background")
    await world.until_pods(0)
    world.saw("left", await world.read(JOBS, "work"))


@living("a Job that starts suspended has no start time and no pods")
async def starts_suspended(world: LivingWorld) -> None:
    await world.create(JOBS, _job(world, suspend=True))
    idle = await world.until_one(JOBS, "work", lambda found: condition(found, "Suspended"))
    world.saw("status", [_told(idle), conditions(idle), "startTime" in idle["status"]])


@living("an indexed Job tries a failed index again, with a pod of the same index")
async def failed_index(world: LivingWorld) -> None:
    failing = {"match": {"labels": {"batch.kubernetes.io/job-completion-index": "1"}}, **FAILS}
    world.behave(failing, ENDS)
    wanted = _job(world, completions=2, parallelism=2, completionMode="Indexed", backoffLimit=1)
    await world.create(JOBS, wanted)
    halfway = await world.until_one(
        JOBS,
        "work",
        lambda found: [found["status"].get(key) for key in ("failed", "succeeded")] == [1, 1],
    )
    world.saw("halfway", halfway["status"].get("completedIndexes"))
    failed = await _over(world, "Failed")
    world.saw("given up", [_told(failed), conditions(failed)])
