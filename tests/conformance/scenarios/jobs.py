"""Jobs and CronJobs: pods that are to end, and how often."""

import re
from typing import Any

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import CRON_JOBS, JOBS, Object, merge_patch
from tests.conformance.running_cluster import RunningCluster, condition, conditions, numbers, staying
from tests.conformance.scenario import running_cluster_scenario

ENDS = {"run": {"lasts": "0s"}}
FAILS = {"run": {"lasts": "0s", "exitCode": 1}}


def _job(cluster: RunningCluster, name: str = "work", **spec: Any) -> Object:
    template = {"metadata": {"labels": {"app": name}}, "spec": cluster.pod_spec(restartPolicy="Never")}
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


async def _over(cluster: RunningCluster, how: str, name: str = "work") -> Object:
    return await cluster.until_one(JOBS, name, lambda found: condition(found, how).get("status") == "True")


def _reported(job: Object) -> list[Object]:
    """All that a Job says of itself at its end but the times."""
    status = job["status"]
    more = {key: status.get(key) for key in ("completedIndexes", "failedIndexes", "uncountedTerminatedPods")}
    return [numbers(job), {key: value for key, value in more.items() if value is not None}]


async def _phases(cluster: RunningCluster) -> list[str]:
    found = (await cluster.client.list(PODS.as_json, namespace=cluster.namespace)).items
    return sorted(pod["status"]["phase"] for pod in found)


@running_cluster_scenario("a Job runs so many pods at a time until so many have succeeded")
async def completions(cluster: RunningCluster) -> None:
    cluster.behave(ENDS)
    made = await cluster.create(JOBS, _job(cluster, completions=3, parallelism=2))
    done = await _over(cluster, "Complete")
    cluster.saw("status", _reported(done))
    cluster.saw("conditions", conditions(done))
    cluster.saw("times", sorted(key for key in done["status"] if key.endswith("Time")))
    found = (await cluster.client.list(PODS.as_json, namespace=cluster.namespace)).items
    cluster.saw("pods", await _phases(cluster))
    labels = {key for key in found[0]["metadata"]["labels"] if "topology" not in key}
    cluster.saw("labels", sorted(labels))
    cluster.saw("finalizers", [pod["metadata"].get("finalizers") for pod in found])
    cluster.saw("selector", sorted(made["spec"]["selector"]["matchLabels"]))


@running_cluster_scenario(
    "while a Job runs it counts its active and ready pods, never more than may run at a time"
)
async def running(cluster: RunningCluster) -> None:
    await cluster.create(JOBS, _job(cluster, completions=5, parallelism=2))
    busy = await cluster.until_one(JOBS, "work", lambda found: found["status"].get("ready") == 2)
    cluster.saw("status", _reported(busy))
    (pod, _) = await cluster.until_pods(2)
    cluster.saw("finalizers", pod["metadata"].get("finalizers"))
    await cluster.client.patch(JOBS, cluster.key("work"), merge_patch({"spec": {"parallelism": 1}}))
    fewer = await cluster.until_one(
        JOBS, "work", lambda found: [found["status"].get(key) for key in ("active", "ready")] == [1, 1]
    )
    cluster.saw("fewer at a time", numbers(fewer).get("active"))
    cluster.saw("pods", len(await cluster.until_pods(1)))


@running_cluster_scenario("a Job fails when its pods fail more often than its backoff limit allows")
async def given_up(cluster: RunningCluster) -> None:
    cluster.behave(FAILS)
    await cluster.create(JOBS, _job(cluster, backoffLimit=0))
    failed = await _over(cluster, "Failed")
    cluster.saw("status", _reported(failed))
    cluster.saw("conditions", conditions(failed))
    cluster.saw("pods", await _phases(cluster))


@running_cluster_scenario("a pod that failed is replaced, and the Job succeeds in the end")
async def second_try(cluster: RunningCluster) -> None:
    cluster.behave(FAILS)
    await cluster.create(JOBS, _job(cluster, backoffLimit=3))
    await cluster.until_one(JOBS, "work", lambda found: found["status"].get("failed") == 1)
    cluster.behave(ENDS)
    done = await _over(cluster, "Complete")
    cluster.saw("conditions", conditions(done))
    cluster.saw("status", _reported(done))
    cluster.saw("pods", await _phases(cluster))


@running_cluster_scenario("an indexed Job has a pod for each index")
async def indexed(cluster: RunningCluster) -> None:
    cluster.behave(ENDS)
    await cluster.create(JOBS, _job(cluster, completions=3, parallelism=3, completionMode="Indexed"))
    done = await _over(cluster, "Complete")
    cluster.saw("status", _reported(done))
    found = (await cluster.client.list(PODS.as_json, namespace=cluster.namespace)).items
    key = "batch.kubernetes.io/job-completion-index"
    cluster.saw("indexes", sorted(pod["metadata"]["annotations"][key] for pod in found))
    cluster.saw("in labels too", sorted(pod["metadata"]["labels"][key] for pod in found))
    names = sorted(pod["metadata"]["name"] for pod in found)
    cluster.saw("names", [name.rpartition("-")[0] for name in names])
    cluster.saw("hostnames", sorted(pod["spec"]["hostname"] for pod in found))


@running_cluster_scenario("a suspended Job runs nothing, and ends what runs")
async def suspended(cluster: RunningCluster) -> None:
    await cluster.create(JOBS, _job(cluster))
    await cluster.until_one(JOBS, "work", lambda found: found["status"].get("ready") == 1)
    await cluster.client.patch(JOBS, cluster.key("work"), merge_patch({"spec": {"suspend": True}}))
    await cluster.until_pods(0)
    idle = await cluster.until_one(
        JOBS, "work", lambda found: not any(found["status"].get(key) for key in ("active", "terminating"))
    )
    cluster.saw("status", _reported(idle))
    cluster.saw("conditions", conditions(idle))
    cluster.behave(ENDS)
    await cluster.client.patch(JOBS, cluster.key("work"), merge_patch({"spec": {"suspend": False}}))
    done = await _over(cluster, "Complete")
    cluster.saw("resumed", conditions(done))


@running_cluster_scenario("a Job that exceeds its deadline is ended with all its pods")
async def too_long(cluster: RunningCluster) -> None:
    await cluster.create(JOBS, _job(cluster, activeDeadlineSeconds=1, parallelism=2))
    failed = await _over(cluster, "Failed")
    cluster.saw("conditions", conditions(failed))
    cluster.saw("status", _reported(failed))
    cluster.saw("pods left", len(staying((await cluster.until(PODS, lambda found: not found)).values())))


@running_cluster_scenario("without a number of completions the first success is the last pod's")
async def work_queue(cluster: RunningCluster) -> None:
    cluster.behave(ENDS)
    await cluster.create(JOBS, _job(cluster, parallelism=2))
    done = await _over(cluster, "Complete")
    cluster.saw("conditions", conditions(done))
    cluster.saw("active", done["status"].get("active"))


@running_cluster_scenario("a CronJob makes a Job when its minute comes")
async def cron_job(cluster: RunningCluster) -> None:
    job = {"spec": _job(cluster)["spec"]}
    wanted = {"metadata": {"name": "nightly"}, "spec": {"schedule": "* * * * *", "jobTemplate": job}}
    await cluster.create(CRON_JOBS, wanted)
    found = await cluster.until(JOBS, lambda jobs: len(jobs) == 1, within_s=90)
    ((name, made),) = found.items()
    cluster.saw("name", re.sub(r"\d+", "MINUTE", name))
    (owner,) = made["metadata"]["ownerReferences"]
    cluster.saw("owner", [owner["kind"], owner["name"], owner.get("controller")])
    cluster.saw("annotations", sorted(made["metadata"]["annotations"]))
    reported = await cluster.until_one(CRON_JOBS, "nightly", lambda each: each["status"].get("active"))
    cluster.saw("status", sorted(reported["status"]))
    (active,) = reported["status"]["active"]
    cluster.saw("active", [active["kind"], active["name"] == name])
    await cluster.until_pods(1)
    cluster.behave(ENDS)
    await _over(cluster, "Complete", name)
    after = await cluster.until_one(CRON_JOBS, "nightly", lambda each: not each["status"].get("active"))
    cluster.saw("status after it", sorted(after["status"]))


@running_cluster_scenario("a finished Job is deleted with its pods after its TTL")
async def time_to_live(cluster: RunningCluster) -> None:
    cluster.behave(ENDS)
    await cluster.create(JOBS, _job(cluster, ttlSecondsAfterFinished=1))
    await cluster.gone(JOBS, "work")
    await cluster.until_pods(0)
    cluster.saw("left", 0)


@running_cluster_scenario("deleting a Job deletes its pods, finished ones too")
async def deleted(cluster: RunningCluster) -> None:
    await cluster.create(JOBS, _job(cluster, parallelism=2, completions=2))
    await cluster.until_pods(2)
    await cluster.client.delete(JOBS, cluster.key("work"), propagation="Background")
    await cluster.until_pods(0)
    cluster.saw("left", await cluster.read(JOBS, "work"))


@running_cluster_scenario("a Job that starts suspended has no start time and no pods")
async def starts_suspended(cluster: RunningCluster) -> None:
    await cluster.create(JOBS, _job(cluster, suspend=True))
    idle = await cluster.until_one(JOBS, "work", lambda found: condition(found, "Suspended"))
    cluster.saw("status", [_reported(idle), conditions(idle), "startTime" in idle["status"]])


@running_cluster_scenario("an indexed Job tries a failed index again, with a pod of the same index")
async def failed_index(cluster: RunningCluster) -> None:
    failing = {"match": {"labels": {"batch.kubernetes.io/job-completion-index": "1"}}, **FAILS}
    cluster.behave(failing, ENDS)
    wanted = _job(cluster, completions=2, parallelism=2, completionMode="Indexed", backoffLimit=1)
    await cluster.create(JOBS, wanted)
    halfway = await cluster.until_one(
        JOBS,
        "work",
        lambda found: [found["status"].get(key) for key in ("failed", "succeeded")] == [1, 1],
    )
    cluster.saw("halfway", halfway["status"].get("completedIndexes"))
    failed = await _over(cluster, "Failed")
    cluster.saw("given up", [_reported(failed), conditions(failed)])
