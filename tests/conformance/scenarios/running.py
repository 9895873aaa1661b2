"""What becomes of pods on their nodes, as kubelets tell it.

One vocabulary drives both: the testbed's kubelets on the real API server, and the simulator's own.
"""

from typing import Any

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import Object
from tests.conformance.living import LivingWorld, conditions, is_ready
from tests.conformance.scenario import living


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
    told = {key: details[key] for key in ("reason", "message", "exitCode") if key in details}
    return [status["name"], status["ready"], status["restartCount"], state, told]


@living("a pod that starts is pending, then running, then ready", nodes=1)
async def starts(world: LivingWorld) -> None:
    world.behave({"startup": "1h"})
    await world.create(PODS, world.pod("slow"))
    pending = await world.until_one(PODS, "slow", lambda pod: pod["status"].get("containerStatuses"))
    world.saw("while it starts", _shown(pending))
    world.behave({"readiness": "never"})
    running = await world.until_one(PODS, "slow", lambda pod: pod["status"]["phase"] == "Running")
    world.saw("while it is not ready", _shown(running))
    world.behave()
    ready = await world.until_one(PODS, "slow", is_ready)
    world.saw("ready", _shown(ready))
    world.saw("quality of service", ready["status"]["qosClass"])


@living("an image that can't be pulled is tried again and again", nodes=1)
async def no_image(world: LivingWorld) -> None:
    world.behave({"blocked": "ErrImagePull"})
    await world.create(PODS, world.pod("web"))
    waiting = await world.until_one(PODS, "web", lambda pod: _waiting(pod) == "ImagePullBackOff")
    world.saw("backing off", _shown(waiting))
    world.behave()
    world.saw("healed", _shown(await world.until_one(PODS, "web", is_ready)))


@living("a container that crashes is restarted, ever later", nodes=1)
async def crashes(world: LivingWorld) -> None:
    world.behave({"run": {"lasts": "0s", "exitCode": 3}})
    await world.create(PODS, world.pod("web"))
    looping = await world.until_one(PODS, "web", lambda pod: _waiting(pod) == "CrashLoopBackOff")
    world.saw("looping", [each[:3] for each in conditions(looping)])
    (status,) = looping["status"]["containerStatuses"]
    world.saw("before", status["lastState"]["terminated"]["exitCode"])


@living("a pod that is not to be restarted ends with its containers", nodes=1)
async def ends(world: LivingWorld) -> None:
    good = {"match": {"labels": {"app": "good"}}, "run": {"lasts": "0s"}}
    bad = {"match": {"labels": {"app": "bad"}}, "run": {"lasts": "0s", "exitCode": 3}}
    world.behave(good, bad)
    for name in ("good", "bad"):
        await world.create(PODS, world.pod(name, restartPolicy="Never"))
    for name, phase in (("good", "Succeeded"), ("bad", "Failed")):
        world.saw(
            name, _shown(await world.until_one(PODS, name, lambda pod, p=phase: pod["status"]["phase"] == p))
        )


@living("init containers come one after the other, before all others", nodes=1)
async def init_containers(world: LivingWorld) -> None:
    world.behave({"match": {"container": "second"}, "startup": "1h"})
    first, second = ({"name": name, "image": "example.com/init:1"} for name in ("first", "second"))
    await world.create(PODS, world.pod("web", initContainers=[first, second]))
    halfway = await world.until_one(PODS, "web", _first_is_done)
    world.saw("halfway", _shown(halfway))
    world.behave()
    world.saw("done", _shown(await world.until_one(PODS, "web", is_ready)))


def _first_is_done(pod: Object) -> bool:
    statuses = pod["status"].get("initContainerStatuses") or ()
    return bool(statuses) and "terminated" in statuses[0]["state"]


@living("a kubelet that gives a pod up makes it fail", nodes=1)
async def evicted(world: LivingWorld) -> None:
    world.behave({"evicted": {"after": "0s"}})
    await world.create(PODS, world.pod("web"))
    world.saw(
        "evicted", _shown(await world.until_one(PODS, "web", lambda p: p["status"]["phase"] == "Failed"))
    )


def _waiting(pod: Object) -> str:
    statuses = pod["status"].get("containerStatuses") or ()
    return next((each["state"]["waiting"]["reason"] for each in statuses if "waiting" in each["state"]), "")
