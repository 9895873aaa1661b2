"""Read a live cluster once, all kinds concurrently, and check whether its webhook answers.

A registration of the webhook proves nothing: the process can be dead, its certificate expired, or the network
down, and API servers continue without it. So a pod is created as a dry run, which the webhook denies with its
own reason. If the pod is admitted, or denied for another reason, the webhook did not answer.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Coroutine, Iterable, Sequence
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, Final, TypeVar

from rescheduler.api.podmigration import UnreadableMigration
from rescheduler.api.well_known_names import (
    API_VERSION,
    GUARD_WEBHOOK,
    POD_MIGRATION_KIND,
    PROBE_ANSWERED,
    PROBE_LABEL,
    SCHEDULING_GATE,
    STEERING_WEBHOOK,
)
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.node_autoscalers import (
    AUTOSCALER_STATUS_CONFIG_MAP,
    NO_SIGNS,
    AutoscalerSigns,
    Consolidation,
    consolidation_of,
    parse_status_time,
)
from rescheduler.cluster.pod_record import PodRecord
from rescheduler.cluster.sources.cluster_kinds import (
    CLUSTER_KINDS,
    ClusterKind,
    ClusterReading,
    WebhookProbeResult,
    pod_dependencies,
)
from rescheduler.cluster.trusted_usage import UsageReader
from rescheduler.cluster.usage_readings import UsageOutcome
from rescheduler.kube import errors
from rescheduler.kube.api_resources import CONFIG_MAPS, MUTATING_WEBHOOKS, NODE_POOLS
from rescheduler.kube.client import Client
from rescheduler.kube.codecs.codec import ListPage

__all__ = [
    "NO_WEBHOOK_REGISTERED",
    "WEBHOOK_LABEL_SELECTOR",
    "EmptyCluster",
    "UnavailableKind",
    "gather_all",
    "list_kind",
    "probe_pod",
    "probe_webhook",
    "probe_webhook_if_registered",
    "read_autoscaler_signs",
    "read_live",
]

log = logging.getLogger(__name__)

T = TypeVar("T")


async def gather_all(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Gather the results; if one fails, cancel the others and wait for them before the error is raised.

    Otherwise they would still use connections that are being closed.
    """
    tasks = [asyncio.ensure_future(each) for each in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


_CONCURRENT_LISTS = 4
"""The number of concurrent lists. Pods take longest and come first; meanwhile three connections are enough
for all other lists, most of which are short. One connection per list would cost more than the lists."""


class EmptyCluster(Exception):  # noqa: N818 - says what was found
    """The cluster has nothing to plan with."""


class UnavailableKind(str):
    """The reason why a kind could not be read."""

    __slots__ = ()


async def read_live(
    client: Client,
    usage: UsageReader,
    *,
    meanwhile: Sequence[str] = (),
    pods: Awaitable[ListPage[PodRecord]] | None = None,
) -> ClusterReading:
    """Read all kinds, several at once. Raises `KubeError` for required kinds, and `EmptyCluster`.

    `meanwhile` names modules to import while the server responds, because planning needs many. `pods` is the
    list of all pods, if it was requested already.
    """
    kinds = [each for each in CLUSTER_KINDS if each.decides]
    gate = asyncio.Semaphore(_CONCURRENT_LISTS)

    async def items(kind: ClusterKind) -> list[Any] | UnavailableKind:
        if kind.kind == "Pod" and pods is not None:
            return (await pods).items
        async with gate:
            return await list_kind(client, kind)

    work: list[Coroutine[Any, Any, Any]] = [items(each) for each in kinds]
    work.append(usage.read())
    work.append(_in_turn(gate, read_autoscaler_signs(client, NO_SIGNS)))
    work.append(asyncio.to_thread(lambda: [*map(import_module, meanwhile)]))
    *lists, measured, signs, _ = await gather_all(work)
    reading = _reading(kinds, lists, measured)
    reading.state.apply_autoscaler_signs(signs)
    return reading


async def read_autoscaler_signs(
    client: Client, before: AutoscalerSigns, *, with_node_pools: bool = True
) -> AutoscalerSigns:
    """Read the signs of node autoscalers, or return `before` if the server does not respond.

    Raises no `KubeError`: planning must not depend on components that may not be there.
    """
    node_pools, updated_s = before.node_pools, None
    try:
        if with_node_pools:
            node_pools = await _node_pools(client)
        with contextlib.suppress(errors.NotFound, errors.Forbidden):
            status = await client.get(CONFIG_MAPS, AUTOSCALER_STATUS_CONFIG_MAP)
            updated_s = parse_status_time(status)
    except errors.KubeError as error:
        log.info("can't read the state of node autoscalers: %s", error)
        return before
    return AutoscalerSigns(node_pools, updated_s)


async def _node_pools(client: Client) -> dict[str, Consolidation] | None:
    with contextlib.suppress(errors.NotFound, errors.Forbidden):
        pools = (await client.list(NODE_POOLS)).items
        return {str(each["metadata"]["name"]): consolidation_of(each) for each in pools}
    return None


async def _in_turn(gate: asyncio.Semaphore, read: Coroutine[Any, Any, T]) -> T:
    async with gate:
        return await read


def _reading(kinds: list[ClusterKind], lists: list[Any], measured: UsageOutcome) -> ClusterReading:
    reading = ClusterReading(datetime.now(UTC).timestamp(), usage=measured)
    by_kind = dict(zip([each.kind for each in kinds], lists, strict=True))
    reading.pods = by_kind["Pod"]
    reading.node_uids = {node.name: node.uid for node in by_kind["Node"]}
    if not reading.node_uids:
        raise EmptyCluster("the cluster has no nodes, so there is nothing to plan")
    needs = pod_dependencies(reading.pods)
    for kind, found in zip(kinds, lists, strict=True):
        if kind.kind == "Pod":
            reading.state.apply_pods(reading.pods)
        elif not isinstance(found, UnavailableKind):
            apply = kind.applier(reading.state)
            for item in found:
                try:
                    apply(item)
                except UnreadableMigration as error:
                    # This kind is only the history of moves, so a plan is possible without it.
                    reading.assumptions.append(f"{error}; this migration is ignored")
        elif kind.without and kind.matters(needs):
            reading.assumptions.append(f"{kind.without}: {found}")
    return reading


async def list_kind(client: Client, kind: ClusterKind) -> list[Any] | UnavailableKind:
    """Return a list from the server's cache, which is nearly current and much cheaper than a quorum read."""
    try:
        return (await client.list(kind.resource, version="0")).items
    except (errors.NotFound, errors.Forbidden) as error:
        if kind.required:
            raise
        return UnavailableKind(error)


WEBHOOK_LABEL_SELECTOR: Final = "app.kubernetes.io/name=rescheduler"
"""Each installation has its own registration, and any of them applies to the whole cluster."""
NO_WEBHOOK_REGISTERED: Final = "no webhook is registered"


async def probe_webhook_if_registered(client: Client, namespace: str = "default") -> WebhookProbeResult:
    """Probe the webhook if it is registered. Raises `KubeError` if the server does not answer."""
    try:
        found = (await client.list(MUTATING_WEBHOOKS, labels=WEBHOOK_LABEL_SELECTOR)).items
    except (errors.Forbidden, errors.NotFound) as error:
        return WebhookProbeResult(problem=f"can't determine whether the webhook is registered: {error.why}")
    if not found:
        return WebhookProbeResult(False, False, NO_WEBHOOK_REGISTERED)
    return await probe_webhook(client, namespace)


async def probe_webhook(client: Client, namespace: str) -> WebhookProbeResult:
    """Return whether API servers reach the webhook for new pods of that namespace. Raises no `KubeError`."""
    steering, guard = await gather_all(
        [_probe(client, namespace, name) for name in (STEERING_WEBHOOK, GUARD_WEBHOOK)]
    )
    problem = "; ".join(dict.fromkeys(each for each in (steering[1], guard[1]) if each))
    return WebhookProbeResult(steering[0], guard[0], problem)


async def _probe(client: Client, namespace: str, webhook: str) -> tuple[bool | None, str]:
    try:
        await client.create(PODS.as_json, probe_pod(namespace, webhook), dry_run=True)
    except errors.Forbidden as refusal:
        if refusal.status.reason == PROBE_ANSWERED:
            return True, ""
        if "cannot create resource" in refusal.why:
            return None, f"probing the webhook needs permission to create pods in namespace {namespace}"
        # Validating webhooks are called last: another one may have refused the pod before. Mutating webhooks
        # are called before all of these, after the permission check only.
        is_unknown = webhook == GUARD_WEBHOOK
        return (None if is_unknown else False), f"the probe of webhook {webhook} was denied: {refusal.why}"
    except errors.KubeError as error:
        return None, f"webhook {webhook} can't be probed: {error.why}"
    return False, f"the API server does not call webhook {webhook}, or the webhook does not answer in time"


def probe_pod(namespace: str, webhook: str) -> dict[str, Any]:
    """Return a pod that no admission policy refuses. It is never created, and could not start anyway."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": namespace,
            "name": "rescheduler-webhook-probe",
            "labels": {PROBE_LABEL: webhook},
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": POD_MIGRATION_KIND,
                    "name": "rescheduler-webhook-probe",
                    "uid": "00000000-0000-0000-0000-000000000000",
                    "controller": True,
                    "blockOwnerDeletion": False,
                }
            ],
        },
        "spec": {
            "schedulingGates": [{"name": SCHEDULING_GATE}],
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "probe",
                    "image": "rescheduler.invalid/probe",
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }
