"""Horizontal autoscalers, as far as they interfere: how many replicas they want for what pods use."""

from rescheduler.kube.api_resources import DEPLOYMENTS, Object, api_resource, merge_patch
from tests.conformance.living import LivingWorld, condition, conditions, numbers
from tests.conformance.scenario import living

AUTOSCALERS = api_resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")


def _autoscaler(name: str, **spec: object) -> Object:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
    }
    quickly = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    body = {"scaleTargetRef": target, "metrics": [metric], "behavior": quickly, "maxReplicas": 4}
    return {"metadata": {"name": name}, "spec": body | spec}


def _uses(app: str, cpu: str) -> Object:
    return {"match": {"labels": {"app": app}}, "usage": {"cpu": cpu, "memory": "10Mi"}}


async def _told(world: LivingWorld, name: str, **counts: int) -> list[object]:
    def so(found: Object) -> bool:
        status = found.get("status") or {}
        return all(status.get(field) == count for field, count in counts.items()) and bool(
            condition(found, "ScalingActive")
        )

    found = await world.until_one(AUTOSCALERS, name, so, within_s=90)
    told = {each[0]: each for each in conditions(found)}
    return [numbers(found), told]


@living("an autoscaler asks for as many replicas as bring the usage down to its target", metrics=True)
async def follows_usage(world: LivingWorld) -> None:
    world.behave(_uses("web", "100%"))
    await world.create(DEPLOYMENTS, world.workload("web", 1))
    await world.until_pods(1)
    await world.create(AUTOSCALERS, _autoscaler("web", minReplicas=1, maxReplicas=3))
    await world.until_pods(3)
    world.saw("at its most", await _told(world, "web", currentReplicas=3, desiredReplicas=3))
    world.behave(_uses("web", "50%"))
    world.behave(_uses("web", "10%"))
    await world.until_pods(1)
    world.saw("at its least", await _told(world, "web", currentReplicas=1, desiredReplicas=1))
    off = merge_patch({"spec": {"replicas": 0}})
    await world.client.patch(DEPLOYMENTS, world.key("web"), off)
    await world.until_one(
        AUTOSCALERS, "web", lambda found: condition(found, "ScalingActive").get("status") == "False"
    )
    world.saw("switched off", (await _told(world, "web"))[1]["ScalingActive"])
