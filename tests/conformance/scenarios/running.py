"""The statuses of pods on their nodes, as kubelets report them.

One vocabulary drives both: the testbed's kubelets on the real API server, and the simulator's own.
"""

from typing import Any

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import Object
from tests.conformance.running_cluster import RunningCluster, conditions, is_ready
from tests.conformance.scenario import running_cluster_scenario


def _shown(pod: Object) -> list[Any]:
    """Phase, conditions without their times, and the state of each container."""
    status = pod["status"]
    return [
        {key: status[key] for key in ("phase", "reason", "message") if key in status},
        [each[:3] for each in conditions(pod)],
        [_container(each) for each in status.get("initContainerStatuses") or ()],
        [_container(each) for each in status.get("containerStatuses") or ()],
    ]


def _container(status: Object) -> list[Any]:
    (state, details), *_ = status["state"].items()
    reported = {key: details[key] for key in ("reason", "message", "exitCode") if key in details}
    return [status["name"], status["ready"], status["restartCount"], state, reported]


@running_cluster_scenario("a pod that starts is pending, then running, then ready", nodes=1)
async def starts(cluster: RunningCluster) -> None:
    cluster.behave({"startup": "1h"})
    await cluster.create(PODS, cluster.pod("slow"))
    pending = await cluster.until_one(PODS, "slow", lambda pod: pod["status"].get("containerStatuses"))
    cluster.saw("while it starts", _shown(pending))
    cluster.behave({"readiness": "never"})
    running = await cluster.until_one(PODS, "slow", lambda pod: pod["status"]["phase"] == "Running")
    cluster.saw("while it is not ready", _shown(running))
    cluster.behave()
    ready = await cluster.until_one(PODS, "slow", is_ready)
    cluster.saw("ready", _shown(ready))
    cluster.saw("quality of service", ready["status"]["qosClass"])


@running_cluster_scenario("an image that can't be pulled is tried again and again", nodes=1)
async def no_image(cluster: RunningCluster) -> None:
    cluster.behave({"blocked": "ErrImagePull"})
    await cluster.create(PODS, cluster.pod("web"))
    waiting = await cluster.until_one(PODS, "web", lambda pod: _waiting(pod) == "ImagePullBackOff")
    cluster.saw("backing off", _shown(waiting))
    cluster.behave()
    cluster.saw("healed", _shown(await cluster.until_one(PODS, "web", is_ready)))


@running_cluster_scenario("a container that crashes is restarted with a growing back-off", nodes=1)
async def crashes(cluster: RunningCluster) -> None:
    cluster.behave({"run": {"lasts": "0s", "exitCode": 3}})
    await cluster.create(PODS, cluster.pod("web"))
    looping = await cluster.until_one(PODS, "web", lambda pod: _waiting(pod) == "CrashLoopBackOff")
    cluster.saw("looping", [each[:3] for each in conditions(looping)])
    (status,) = looping["status"]["containerStatuses"]
    cluster.saw("before", status["lastState"]["terminated"]["exitCode"])


@running_cluster_scenario("a pod that is not to be restarted ends with its containers", nodes=1)
async def ends(cluster: RunningCluster) -> None:
    good = {"match": {"labels": {"app": "good"}}, "run": {"lasts": "0s"}}
    bad = {"match": {"labels": {"app": "bad"}}, "run": {"lasts": "0s", "exitCode": 3}}
    cluster.behave(good, bad)
    for name in ("good", "bad"):
        await cluster.create(PODS, cluster.pod(name, restartPolicy="Never"))
    for name, phase in (("good", "Succeeded"), ("bad", "Failed")):
        cluster.saw(
            name,
            _shown(await cluster.until_one(PODS, name, lambda pod, p=phase: pod["status"]["phase"] == p)),
        )


@running_cluster_scenario("init containers come one after the other, before all others", nodes=1)
async def init_containers(cluster: RunningCluster) -> None:
    cluster.behave({"match": {"container": "second"}, "startup": "1h"})
    first, second = ({"name": name, "image": "example.com/init:1"} for name in ("first", "second"))
    await cluster.create(PODS, cluster.pod("web", initContainers=[first, second]))
    halfway = await cluster.until_one(PODS, "web", _first_is_done)
    cluster.saw("halfway", _shown(halfway))
    cluster.behave()
    cluster.saw("done", _shown(await cluster.until_one(PODS, "web", is_ready)))


def _first_is_done(pod: Object) -> bool:
    statuses = pod["status"].get("initContainerStatuses") or ()
    return bool(statuses) and "terminated" in statuses[0]["state"]


@running_cluster_scenario("a pod that its kubelet evicts fails", nodes=1)
async def evicted(cluster: RunningCluster) -> None:
    cluster.behave({"evicted": {"after": "0s"}})
    await cluster.create(PODS, cluster.pod("web"))
    cluster.saw(
        "evicted", _shown(await cluster.until_one(PODS, "web", lambda p: p["status"]["phase"] == "Failed"))
    )


def _waiting(pod: Object) -> str:
    statuses = pod["status"].get("containerStatuses") or ()
    return next((each["state"]["waiting"]["reason"] for each in statuses if "waiting" in each["state"]), "")
