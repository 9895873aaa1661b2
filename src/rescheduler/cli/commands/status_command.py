"""`rescheduler status`: the status of the daemon, and problems of the installation."""

import asyncio
import re
import sys
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from rescheduler.cli.cluster_source import EXIT_ERROR, ClusterSource, exit_with_error
from rescheduler.cli.command_options import live_cluster_options
from rescheduler.cli.commands.daemon_commands import installation_namespace, installation_namespace_option
from rescheduler.cli.output_formats import output_option, print_document
from rescheduler.cli.terminal import echo_lines

if TYPE_CHECKING:
    from datetime import timedelta

    from rescheduler.api.daemon_status import DaemonStatus, Pause
    from rescheduler.cli.status_view import ObservedStatus
    from rescheduler.cluster.pod_record import PodRecord
    from rescheduler.config.policy import Configuration
    from rescheduler.kube.api_resources import Object
    from rescheduler.kube.client import Client
    from rescheduler.web.web_authorization import Access

__all__ = ["installed_settle_time", "read_copies", "status"]

_CONCURRENT_REVIEWS: Final = 8
_COMMAND: Final = re.compile(r"`[^`]+`")
_HOW_TO_BIND: Final = "docs/permissions.md says how to bind them"
_MOVED_RESOURCES: Final = {"pods", "pods/eviction", "podmigrations", "podmigrations/status"}
"""The resources that a process writes to make moves."""
_INSTALL: Final = "rescheduler manifests --create-namespace --image IMAGE | kubectl apply -f -"
_APPLY_CRD: Final = "rescheduler manifests --crd | kubectl apply -f -"


@click.command()
@live_cluster_options
@installation_namespace_option
@output_option
def status(cluster: ClusterSource, namespace: str | None, output: str) -> None:
    """Problems are failing pods, suspect nodes and nodes that can't be drained.

    It also checks the installation: the Deployment, the CRD, the webhook, and which commands your permissions
    allow. The command reads only the cluster, so it works from any machine. The daemon's status is as of its
    last check.
    """
    configuration = cluster.configuration()

    async def observe(client: "Client") -> "ObservedStatus":
        return await _observe_status(client, namespace, configuration, is_given=cluster.config is not None)

    from rescheduler.api.daemon_status import UnreadableState  # noqa: PLC0415

    try:
        found = cluster.with_client(configuration, observe)
    except UnreadableState as error:
        exit_with_error(f"ConfigMap rescheduler-state: {error}", EXIT_ERROR)
    now = datetime.now(UTC)
    if output == "table":
        from rescheduler.cli.status_view import status_lines  # noqa: PLC0415
        from rescheduler.cli.terminal import terminal_of  # noqa: PLC0415

        terminal = terminal_of(sys.stdout)
        echo_lines(status_lines(found, terminal, now), color=terminal.colour)
    else:
        from rescheduler.cli.status_view import status_document  # noqa: PLC0415

        print_document(status_document(found, now), output)


async def _observe_status(
    client: "Client", namespace: str | None, configuration: "Configuration", *, is_given: bool
) -> "ObservedStatus":
    """Return the status; `is_given` says whether the user named a configuration file."""
    from rescheduler.api.well_known_names import EMPTY_CONDITION  # noqa: PLC0415
    from rescheduler.cli.migrations_view import LiveSteps  # noqa: PLC0415
    from rescheduler.cli.status_view import ObservedStatus  # noqa: PLC0415
    from rescheduler.cluster.codecs.record_resources import NODES  # noqa: PLC0415
    from rescheduler.cluster.node_record import in_maintenance  # noqa: PLC0415
    from rescheduler.cluster.sources.watched_objects import POD_MIGRATIONS  # noqa: PLC0415
    from rescheduler.kube.api_resources import LEASES  # noqa: PLC0415
    from rescheduler.kube.leader_election import lease_record_of  # noqa: PLC0415

    home = await installation_namespace(client, configuration, namespace)
    reader = _PermittedReader(client)
    pause, written = await reader.state(home)
    lease = await reader.get("lease", LEASES, f"{home}/{configuration.leader_election.resource_name}")
    migrations = await reader.list("migrations", POD_MIGRATIONS)
    nodes = await reader.list("nodes", NODES) or []
    copies = await read_copies(client, "", list(migrations or ()))
    settle_time = configuration.policy.settle_time
    if copies and not is_given:
        settle_time = await installed_settle_time(client, settle_time)
    described = await _describe_installation(client, home, has_crd=migrations is not None)
    found = ObservedStatus(
        home,
        pause,
        written,
        lease_record_of(lease.get("spec") or {}),
        migrations,
        {node.name: node.condition(EMPTY_CONDITION) for node in nodes if in_maintenance(node)},
        len(nodes),
        sum(not node.is_ready for node in nodes),
        LiveSteps(copies, settle_time),
        (*described, *reader.problems),
        unknown=frozenset(reader.unknown),
        label_gone={
            node.name: condition
            for node in nodes
            if not in_maintenance(node) and (condition := node.condition(EMPTY_CONDITION)) is not None
        },
    )
    return replace(found, permissions=await _describe_permissions(client, found, datetime.now(UTC)))


async def read_copies(client: "Client", namespace: str, items: "list[Object]") -> "dict[str, PodRecord]":
    """Return the pods that running migrations have created, by the migration's key; none without permission.

    They show the current step: the status of a migration has only the steps that the next process must know.
    """
    from rescheduler.cluster.codecs.record_resources import PODS  # noqa: PLC0415
    from rescheduler.kube import errors  # noqa: PLC0415
    from rescheduler.migrations.labels_and_names import MIGRATION_ID_LABEL, STATUS_LABEL  # noqa: PLC0415

    running = {
        f"{item['metadata']['namespace']}/{item['metadata']['name']}": item["spec"]["pod"]["name"]
        for item in items
        if (item.get("status") or {}).get("phase") == "InProgress"
    }
    if not running:
        return {}
    selector = f"{MIGRATION_ID_LABEL},{STATUS_LABEL} in (pending, in-progress)"
    try:
        pods = (await client.list(PODS, namespace=namespace, labels=selector)).items
    except errors.Forbidden:
        return {}
    keys = {pod.key: f"{pod.namespace}/{pod.labels[MIGRATION_ID_LABEL]}" for pod in pods}
    return {keys[pod.key]: pod for pod in pods if running.get(keys[pod.key], pod.name) != pod.name}


async def installed_settle_time(client: "Client", default: "timedelta") -> "timedelta":
    """Return the settle time of the installed daemon, or the default if its configuration can't be read."""
    from rescheduler.config.config_loader import load_content  # noqa: PLC0415
    from rescheduler.config.config_validation import ConfigurationError, known_strategies  # noqa: PLC0415
    from rescheduler.config.policy import LeaderElection  # noqa: PLC0415
    from rescheduler.install.cluster_installation import (  # noqa: PLC0415
        AmbiguousInstallation,
        read_installed_configuration,
    )
    from rescheduler.kube.errors import Forbidden, NotFound  # noqa: PLC0415

    try:
        found = await read_installed_configuration(client, LeaderElection().resource_name)
        if found is None:
            return default
        loaded = load_content(found.content, known_strategies(), source=found.source)
    except (AmbiguousInstallation, ConfigurationError, Forbidden, NotFound):
        return default
    return loaded.configuration.policy.settle_time


class _PermittedReader:
    """Reads everything that the user may read, and collects the errors about the rest."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self.problems: list[str] = []
        self.unknown: set[str] = set()

    async def state(self, home: str) -> "tuple[Pause, DaemonStatus | None]":
        from rescheduler.api.daemon_status import Pause  # noqa: PLC0415
        from rescheduler.daemon.own_objects import read_state  # noqa: PLC0415
        from rescheduler.kube import errors  # noqa: PLC0415

        try:
            return await read_state(self._client, home)
        except errors.Forbidden as error:
            self._refused("state", error)
            return Pause(), None

    def _refused(self, what: str, error: Exception) -> None:
        self.unknown.add(what)
        self.problems.append(f"unknown: {error}")

    async def get(self, what: str, resource: Any, key: str) -> "Object":
        """Return the object; an empty one if it is missing or can't be read."""
        from rescheduler.kube import errors  # noqa: PLC0415

        try:
            found: Object = await self._client.get(resource, key)
        except errors.NotFound:
            return {}
        except errors.Forbidden as error:
            self._refused(what, error)
            return {}
        return found

    async def list(self, what: str, resource: Any) -> "list[Any] | None":
        """Return the objects; an empty list if they can't be read, None if the cluster lacks the kind."""
        from rescheduler.kube import errors  # noqa: PLC0415

        try:
            return list((await self._client.list(resource)).items)
        except errors.NotFound:
            return None
        except errors.Forbidden as error:
            self._refused(what, error)
            return []


async def _describe_installation(client: "Client", home: str, *, has_crd: bool) -> tuple[str, ...]:
    """Return sentences about the Deployment, the CRD and the webhook, which a person would check first."""
    from rescheduler.cluster.sources.live_source import probe_webhook_if_registered  # noqa: PLC0415
    from rescheduler.kube import errors  # noqa: PLC0415

    found = []
    try:
        found.append(await _describe_deployment(client, home))
    except errors.Forbidden as error:
        found.append(f"unknown: {error}")
    found.append(await _describe_crd(client) if has_crd else f"no PodMigration CRD: run `{_APPLY_CRD}`")
    webhook = await probe_webhook_if_registered(client)
    what_fails = (
        "not known whether the webhook answers" if webhook.steers is None else "webhook does not steer"
    )
    found.append("webhook answers" if webhook.steers else f"{what_fails}: {webhook.problem}")
    return tuple(found)


async def _describe_crd(client: "Client") -> str:
    """Return whether the installed CRD has everything that this version needs."""
    from rescheduler.api.podmigration_crd import PODMIGRATION_CRD_NAME, missing_crd_parts  # noqa: PLC0415
    from rescheduler.api.well_known_names import VERSION  # noqa: PLC0415
    from rescheduler.cli.terminal import abbreviated_list  # noqa: PLC0415
    from rescheduler.kube import errors  # noqa: PLC0415
    from rescheduler.kube.api_resources import CUSTOM_RESOURCE_DEFINITIONS  # noqa: PLC0415

    words = f"PodMigration CRD {VERSION}"
    try:
        missing = missing_crd_parts(await client.get(CUSTOM_RESOURCE_DEFINITIONS, PODMIGRATION_CRD_NAME))
    except (errors.Forbidden, errors.NotFound) as error:
        return f"{words}, not known whether it is up to date: {error}"
    if not missing:
        return words
    return f"{words} is outdated: it lacks {abbreviated_list(missing)}. To update it, run `{_APPLY_CRD}`"


async def _describe_deployment(client: "Client", home: str) -> str:
    from rescheduler.cluster.codecs.record_resources import PODS  # noqa: PLC0415
    from rescheduler.cluster.pod_record import cant_run_reason, waiting_error  # noqa: PLC0415
    from rescheduler.install.install_options import DAEMON, labels  # noqa: PLC0415
    from rescheduler.kube import errors  # noqa: PLC0415
    from rescheduler.kube.api_resources import DEPLOYMENTS  # noqa: PLC0415

    try:
        item = await client.get(DEPLOYMENTS, f"{home}/{DAEMON}")
    except errors.NotFound:
        return f"not in the cluster: run `{_INSTALL}`"
    wanted = (item.get("spec") or {}).get("replicas", 1)
    ready = (item.get("status") or {}).get("readyReplicas", 0)
    words = f"in namespace {home}, {ready}/{wanted} ready"
    if ready >= wanted:
        return words
    selector = ",".join(f"{key}={value}" for key, value in labels("daemon").items())
    for pod in (await client.list(PODS, namespace=home, labels=selector)).items:
        scheduled = pod.condition("PodScheduled")
        if scheduled is not None and scheduled.reason == "Unschedulable":
            return f"{words}: {pod.name} is unschedulable: {scheduled.message}"
        for status in (*pod.init_container_statuses, *pod.container_statuses):
            if reason := cant_run_reason(status) or waiting_error(status):
                return f"{words}: {pod.name}: {reason} {getattr(status.state, 'message', '')}".rstrip()
    return words


async def _describe_permissions(
    client: "Client", observed: "ObservedStatus", now: datetime
) -> tuple[str, ...]:
    """Return sentences about the commands that the user's permissions allow, and the roles for the others.

    If no daemon leads, commands make the moves themselves, which needs the permissions of the daemon.
    """
    from rescheduler.api.podmigration_crd import PODMIGRATION_CRD_NAME  # noqa: PLC0415
    from rescheduler.kube import errors  # noqa: PLC0415
    from rescheduler.web.web_authorization import Access  # noqa: PLC0415

    asked, executing = _accesses_of_commands(observed.namespace), _accesses_to_execute()
    removing = Access(
        "delete", "apiextensions.k8s.io", "customresourcedefinitions", name=PODMIGRATION_CRD_NAME
    )
    try:
        denied = await _denied(client, [*(access for _, access in asked), *executing, removing])
    except errors.Forbidden as error:
        return (f"unknown: {error}",)
    missing = [access for access in executing if access in denied]
    found = _describe_commands(asked, denied, observed.namespace)
    if not found:
        words = "allow every command"
        words += " but `uninstall` and `--install`, which need cluster-admin," * (removing in denied)
        found.append((words + " while the daemon leads" * bool(missing)).removesuffix(","))
    if missing and observed.daemon_leads(now) is False:
        found.append(_describe_missing(missing, observed, now))
    return tuple(found)


def _accesses_of_commands(home: str) -> "list[tuple[str, Access]]":
    """Return the accesses of a role that allows every command, each with the commands that need it."""
    from rescheduler.install.rbac import OPERATOR_CLUSTER_GRANTS, OPERATOR_NAMESPACE_GRANTS  # noqa: PLC0415
    from rescheduler.web.web_authorization import Access  # noqa: PLC0415

    found: list[tuple[str, Access]] = []
    for grant in OPERATOR_CLUSTER_GRANTS:
        # One review per kind: roles grant `get`, `list` and `watch` together.
        verbs = ("list",) if "list" in grant.verbs else grant.verbs
        name = grant.names[0] if grant.names else ""
        found += [(grant.why, Access(verb, grant.group, grant.resource, name=name)) for verb in verbs]
    for grant in OPERATOR_NAMESPACE_GRANTS:
        for verb in grant.verbs:
            found.append((grant.why, Access(verb, grant.group, grant.resource, home, grant.names[0])))
    return found


def _accesses_to_execute() -> "list[Access]":
    """Return the writes with which a process makes moves."""
    from rescheduler.install.rbac import DAEMON_CLUSTER_GRANTS  # noqa: PLC0415
    from rescheduler.web.web_authorization import Access  # noqa: PLC0415

    return [
        Access(verb, grant.group, grant.resource)
        for grant in DAEMON_CLUSTER_GRANTS
        for verb in grant.verbs
        if grant.resource in _MOVED_RESOURCES and verb not in {"get", "list", "watch"}
    ]


def _describe_commands(asked: "list[tuple[str, Access]]", denied: "list[Access]", home: str) -> list[str]:
    """Return which commands are allowed, what the others lack, and the roles for them; empty if none is
    denied."""
    from rescheduler.api.well_known_names import cluster_scoped_name  # noqa: PLC0415
    from rescheduler.install.install_options import DAEMON  # noqa: PLC0415

    needed: dict[str, list[str]] = {}
    for why, access in asked:
        if access in denied:
            needed.setdefault(why, []).append(access.words())
    if not needed:
        return []
    refused = {command for why in needed for command in _COMMAND.findall(why)}
    commands = dict.fromkeys(command for why, _ in asked for command in _COMMAND.findall(why))
    allowed = [command for command in commands if command not in refused]
    none = "no command for the whole cluster; with -n NAMESPACE, `migrations` and `history` may work"
    role = cluster_scoped_name(f"{DAEMON}-operator", home)
    return [
        f"allow {', '.join(allowed) or none}",
        *(f"may not {', '.join(what)}: needed for {why}" for why, what in needed.items()),
        f"ClusterRole {role} and Role {DAEMON}-operator allow the rest: {_HOW_TO_BIND}",
    ]


def _describe_missing(missing: "list[Access]", observed: "ObservedStatus", now: datetime) -> str:
    """Return what commands lack to make moves themselves, because no daemon leads."""
    from rescheduler.api.well_known_names import cluster_scoped_name  # noqa: PLC0415
    from rescheduler.install.install_options import DAEMON  # noqa: PLC0415

    is_dry_run = observed.status is not None and observed.status.dry_run is not None
    remedy = "Switch the dry run off" if is_dry_run else "Start the daemon"
    holder = observed.leads(now)
    leader = f"{holder} leads, which is a command and no daemon" if holder else "No daemon leads"
    return (
        f"{leader}, so `apply`, `move`, `drain` and `undo` make the moves themselves"
        f"{' when it has ended' * bool(holder)}, and you may not "
        f"{', '.join(access.words() for access in missing)}. {remedy}, or use its "
        f"ClusterRole {cluster_scoped_name(DAEMON, observed.namespace)} and Role {DAEMON}: {_HOW_TO_BIND}"
    )


async def _denied(client: "Client", accesses: "list[Access]") -> "list[Access]":
    """Return the accesses that the user's permissions don't allow; raise `KubeError`."""
    from rescheduler.cluster.sources.live_source import gather_all  # noqa: PLC0415
    from rescheduler.web.web_authorization import review_own_access  # noqa: PLC0415

    limit = asyncio.Semaphore(_CONCURRENT_REVIEWS)

    async def review(access: "Access") -> bool:
        async with limit:
            return await review_own_access(client, access)

    answers = await gather_all([review(access) for access in accesses])
    return [access for access, is_allowed in zip(accesses, answers, strict=True) if not is_allowed]
