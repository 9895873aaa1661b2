"""`namespaces/finalize`: the last word on a namespace that is being deleted."""

from rescheduler.simulator.cluster import Cluster
from rescheduler.simulator.exchange import Answer, Object, Question, answer_object, decode
from rescheduler.simulator.options import WriteOptions
from rescheduler.simulator.routing import Route
from rescheduler.simulator.verbs import body_object

__all__ = ["finalize"]


async def finalize(cluster: Cluster, question: Question, route: Route) -> Answer:
    wanted = body_object(question)

    def with_finalizers(live: Object | None) -> Object:
        assert live is not None
        return {
            **live,
            "spec": {**live.get("spec", {}), "finalizers": wanted.get("spec", {}).get("finalizers")},
        }

    options = WriteOptions.parse(question, kind="UpdateOptions")
    raw, _ = await cluster.writer.change(
        route.kind, "", route.name, with_finalizers, options, subresource="finalize"
    )
    return answer_object(200, {"kind": route.kind.name, "apiVersion": route.kind.api_version, **decode(raw)})
