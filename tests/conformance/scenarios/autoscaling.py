"""Horizontal autoscalers, as far as they interfere: how many replicas they want for what pods use."""

from rescheduler.kube.api_resources import DEPLOYMENTS, Object, api_resource, merge_patch
from tests.conformance.running_cluster import RunningCluster, condition, conditions, numbers
from tests.conformance.scenario import running_cluster_scenario

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


async def _reported(cluster: RunningCluster, name: str, **counts: int) -> list[object]:
    def so(found: Object) -> bool:
        status = found.get("status") or {}
        return all(status.get(field) == count for field, count in counts.items()) and bool(
            condition(found, "ScalingActive")
        )

    found = await cluster.until_one(AUTOSCALERS, name, so, within_s=90)
    reported = {each[0]: each for each in conditions(found)}
    return [numbers(found), reported]


@running_cluster_scenario(
    "an autoscaler asks for as many replicas as bring the usage down to its target", metrics=True
)
async def follows_usage(cluster: RunningCluster) -> None:
    cluster.behave(_uses("web", "100%"))
    await cluster.create(DEPLOYMENTS, cluster.workload("web", 1))
    await cluster.until_pods(1)
    await cluster.create(AUTOSCALERS, _autoscaler("web", minReplicas=1, maxReplicas=3))
    await cluster.until_pods(3)
    cluster.saw("at its most", await _reported(cluster, "web", currentReplicas=3, desiredReplicas=3))
    cluster.behave(_uses("web", "50%"))
    cluster.behave(_uses("web", "10%"))
    await cluster.until_pods(1)
    cluster.saw("at its least", await _reported(cluster, "web", currentReplicas=1, desiredReplicas=1))
    off = merge_patch({"spec": {"replicas": 0}})
    await cluster.client.patch(DEPLOYMENTS, cluster.key("web"), off)
    await cluster.until_one(
        AUTOSCALERS, "web", lambda found: condition(found, "ScalingActive").get("status") == "False"
    )
    cluster.saw("switched off", (await _reported(cluster, "web"))[1]["ScalingActive"])
