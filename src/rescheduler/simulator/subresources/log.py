"""`pods/log`: no container runs here, so there is not much to tell."""

from rescheduler.simulator.cluster import Cluster
from rescheduler.simulator.exchange import Answer, Question, answer_bytes
from rescheduler.simulator.failures import bad_request
from rescheduler.simulator.routing import Route

__all__ = ["read"]


async def read(cluster: Cluster, question: Question, route: Route) -> Answer:
    pod = cluster.expect(route.kind, route.namespace, route.name).object
    containers = [container["name"] for container in pod["spec"].get("containers", ())]
    wanted = question.query.get("container") or containers[0]
    if wanted not in containers:
        raise bad_request(f"container {wanted} is not valid for pod {route.name}")
    if not pod["spec"].get("nodeName"):
        return answer_bytes(200, b"", "text/plain")
    told = f"{wanted} of {route.namespace}/{route.name} is simulated: it runs nothing and logs nothing\n"
    return answer_bytes(200, told.encode(), "text/plain")
