"""A sandbox in which pods fail, with the whole program."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pytest

from rescheduler.api.podmigration import FAILED_PODS, Migration, decode_migration
from rescheduler.api.well_known_names import FAILED_ATTEMPTS_ANNOTATION
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.pod_constraints import avoided_nodes
from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS
from rescheduler.config.policy import Policy
from rescheduler.kube.api_resources import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    NAMESPACES,
    REPLICA_SETS,
    STATEFUL_SETS,
    ApiResource,
    Object,
    merge_patch,
)
from rescheduler.kube.client import Client
from rescheduler.recovery.attempt_ledger import AttemptLedger, read_ledger
from tests.stories import objects
from tests.stories.objects import ready_since
from tests.stories.recovery.program import Pace, ReceivedEvents, recovering
from tests.stories.sandbox import AT_ONCE, Sandbox, node_of
from tests.stories.waiting import until, until_object

__all__ = ["CRASH", "RETRIES", "MakeRecovery", "RecoverySandbox", "alone"]

RETRIES = "scheduling-retries"
CRASH = {"run": {"lasts": "0s", "exitCode": 1}, "readiness": "never"}
RESOURCES: Mapping[str, ApiResource[Any]] = {
    "Deployment": DEPLOYMENTS,
    "ReplicaSet": REPLICA_SETS,
    "StatefulSet": STATEFUL_SETS,
    "DaemonSet": DAEMON_SETS,
    "Job": JOBS,
    "CronJob": CRON_JOBS,
    "Pod": PODS.as_json,
}

MakeRecovery = Callable[..., Any]
alone = pytest.mark.simulator(
    reason="needs terms, or a program, of its own: on the control plane one program serves all stories"
)


@dataclass
class RecoverySandbox:
    sandbox: Sandbox
    now: Callable[[], datetime]
    pace: Pace
    connect: Callable[[], Client]
    policy: Policy
    is_shared: bool = False
    """Whether one program sees to all sandboxes, by its own terms."""
    leaves_marks: bool = True
    """Whether a pod that is kept off nodes says so itself: by the webhook it does, by the extender not."""
    received: ReceivedEvents | None = None
    """What the program reported lately, if it is ours alone."""

    @property
    def client(self) -> Client:
        return self.sandbox.client

    # -- the program

    @contextlib.asynccontextmanager
    async def recovering(self, client: Client | None = None) -> AsyncIterator[None]:
        """The daemon runs while the body does; or it runs anyway, and sees to all sandboxes."""
        if self.is_shared:
            yield
            return
        async with recovering(
            client or self.connect(), self.policy, self.sandbox.namespace, self.now
        ) as received:
            self.received = received
            yield

    # -- workloads

    async def in_another_namespace(self) -> "RecoverySandbox":
        """Return a sandbox on the same nodes, with the same program."""
        name = f"{self.sandbox.namespace}-too"
        await self.client.create(NAMESPACES, {"metadata": {"name": name}})
        return replace(self, sandbox=replace(self.sandbox, namespace=name))

    async def workload(
        self, kind: str, *, retries: str | None = "3", name: str = "web", **more: Any
    ) -> Object:
        """`pod` says more about each pod, `annotations` are further ones, the rest is its spec's."""
        made: Object = await self.client.create(
            RESOURCES[kind], self.described(kind, retries=retries, name=name, **more)
        )
        return made

    async def workload_on(self, node: str, kind: str, **more: Any) -> Object:
        """The same, with its pods on this node for a start."""
        others = [each for each in self.sandbox.nodes if each != node]
        await self.sandbox.cordon(*others)
        made = await self.workload(kind, **more)
        await self.until_pods(
            lambda pods: pods and set(map(node_of, pods)) == {node}, more.get("name", "web")
        )
        await self.sandbox.cordon(*others, on=False)
        return made

    async def crowd(self, *nodes: str) -> None:
        """A large pod on each: a pod that may choose goes elsewhere."""
        for node in nodes:
            await self.sandbox.pod(
                f"on-{node}", metadata={"labels": {"app": "crowd"}}, nodeName=node, cpu="2"
            )
        await self.sandbox.until_ready(len(nodes), app="crowd")

    def described(
        self,
        kind: str,
        *,
        retries: str | None = "3",
        name: str = "web",
        pod: Object | None = None,
        annotations: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> Object:
        resource = RESOURCES[kind]
        annotations = dict(annotations or {}) | ({RETRIES: retries} if retries is not None else {})
        metadata = {"namespace": self.sandbox.namespace, "name": name, "annotations": annotations}
        pod_spec = objects.pod_spec(self.sandbox.kubelet.name, **(pod or {}))
        item = {"apiVersion": resource.api_version, "kind": kind, "metadata": metadata}
        if kind == "Pod":
            metadata["labels"] = {"app": name}
            return item | {"spec": pod_spec}
        template = {"metadata": {"labels": {"app": name}}, "spec": pod_spec}
        if "template_marks" in spec:
            template["metadata"]["annotations"] = spec.pop("template_marks")
        if kind == "CronJob":
            job = {"template": template} | spec.pop("job", {})
            return item | {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job}, **spec}}
        wanted: Object = {"template": template}
        if kind != "Job":
            wanted["selector"] = {"matchLabels": {"app": name}}
        if kind in {"Deployment", "ReplicaSet", "StatefulSet"}:
            wanted["replicas"] = 1
        if kind == "StatefulSet":
            wanted["serviceName"] = name
        return item | {"spec": wanted | spec}

    def job_of(self, cron_job: Object) -> Object:
        """Create a Job as `kubectl create job --from` does."""
        metadata = cron_job["metadata"]
        owner = {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
        }
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "namespace": metadata["namespace"],
                "name": f"{metadata['name']}-1",
                "ownerReferences": [owner],
            },
            "spec": cron_job["spec"]["jobTemplate"]["spec"],
        }

    async def annotate(self, kind: str, name: str = "web", **marks: str | None) -> None:
        named = {key.replace("__", "/").replace("_", "-"): value for key, value in marks.items()}
        patch = merge_patch({"metadata": {"annotations": named}})
        await self.client.patch(RESOURCES[kind], self.sandbox.key(name), patch)

    # -- what happens to pods

    def breaks(self, *nodes: str, **how: Any) -> None:
        """Containers on these nodes fail like this (crash, by default); elsewhere they are ready at once."""
        container = how.pop("container", "*")
        rule = how or CRASH
        match = {"container": container}
        self.sandbox.behave(*({"match": {"node": node, **match}, **AT_ONCE, **rule} for node in nodes))

    def must_be_kept_off(self, pod: Object, *nodes: str) -> None:
        """Check that pods are kept off these nodes, as far as their specs say so."""
        reported = avoided_nodes(pod["metadata"].get("annotations", {}))
        assert reported == (nodes if self.leaves_marks else ())

    async def pods(self, name: str = "web") -> list[Object]:
        return await self.sandbox.pods(name)

    async def until_pods(self, holds: Callable[[list[Object]], Any], name: str = "web") -> Any:
        def of_these(pods: Mapping[str, Object]) -> Any:
            staying = [pod for pod in pods.values() if "deletionTimestamp" not in pod["metadata"]]
            return holds(staying)

        return await until(
            self.client,
            PODS.as_json,
            self.sandbox.namespace,
            of_these,
            labels=f"app={name}",
            timeout_s=self.pace.timeout_s,
        )

    async def until_well(self, count: int = 1, name: str = "web") -> list[Object]:
        """Wait for so many pods, all of them ready."""

        def well(pods: list[Object]) -> list[Object]:
            ready = [pod for pod in pods if ready_since(pod)]
            return ready if len(ready) == len(pods) == count else []

        found: list[Object] = await self.until_pods(well, name)
        return found

    # -- what is on record

    async def ledger(self, kind: str, name: str = "web") -> AttemptLedger:
        return _ledger(await self.client.get(RESOURCES[kind], self.sandbox.key(name)))

    async def until_ledger(
        self, kind: str, holds: Callable[[AttemptLedger], object], name: str = "web"
    ) -> AttemptLedger:
        found = await until_object(
            self.client,
            RESOURCES[kind],
            self.sandbox.key(name),
            lambda item: holds(_ledger(item)),
            timeout_s=self.pace.timeout_s,
        )
        return _ledger(found)

    async def until_forgotten(self, kind: str, name: str = "web") -> Object:
        """Wait until there is no record."""
        return await until_object(
            self.client,
            RESOURCES[kind],
            self.sandbox.key(name),
            lambda item: FAILED_ATTEMPTS_ANNOTATION not in item["metadata"].get("annotations", {}),
            timeout_s=self.pace.timeout_s,
        )

    async def migrations(self) -> list[Migration]:
        page = await self.client.list(POD_MIGRATIONS, namespace=self.sandbox.namespace)
        found = [decode_migration(item) for item in page.items]
        return sorted(
            (each for each in found if each.spec.strategy == FAILED_PODS), key=lambda each: each.created
        )

    async def until_migrations(self, count: int) -> list[Migration]:
        """Wait for so many finished migrations."""

        def over(items: Mapping[str, Object]) -> bool:
            found = [decode_migration(item) for item in items.values()]
            return len(found) >= count and all(each.is_finished and not each.finalizers for each in found)

        await until(self.client, POD_MIGRATIONS, self.sandbox.namespace, over, timeout_s=self.pace.timeout_s)
        return await self.migrations()

    async def until_nothing_is_under_way(self) -> None:
        await self.until_migrations(0)

    async def for_a_while(self) -> None:
        """Long enough for anything to happen that is about to."""
        terms = self.policy.failed_pods
        patience = max(terms.stuck_after, terms.node_lost_after) + 4 * self.policy.rescheduling_interval
        await asyncio.sleep(patience.total_seconds())

    async def events(self, reason: str) -> list[Object]:
        page = await self.client.list(EVENTS, namespace=self.sandbox.namespace)
        return [each for each in page.items if each.get("reason") == reason]

    async def until_event(self, reason: str, *, node: str = "") -> Object:
        """About something in the sandbox, or about a node."""

        def found(events: Mapping[str, Object]) -> Object | None:
            fitting = (each for each in events.values() if each.get("reason") == reason)
            return next((each for each in fitting if node in {"", each["involvedObject"]["name"]}), None)

        namespace = "default" if node else self.sandbox.namespace
        event = await until(self.client, EVENTS, namespace, found, timeout_s=self.pace.timeout_s)
        assert event is not None
        return event

    def with_terms(self, **terms: Any) -> None:
        self.policy = replace(self.policy, failed_pods=replace(self.policy.failed_pods, **terms))


def _ledger(item: Object) -> AttemptLedger:
    metadata = item["metadata"]
    return read_ledger(metadata.get("annotations", {}).get(FAILED_ATTEMPTS_ANNOTATION, ""), {metadata["uid"]})
