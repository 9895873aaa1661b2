"""`rescheduler explain`, which says why pods can't move, and `fit`, which says whether new pods would fit."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from rescheduler.cli.cluster_source import (
    EXIT_ERROR,
    ClusterSource,
    exit_with_error,
    print_note,
    read_input_file,
)
from rescheduler.cli.command_options import (
    cluster_and_config_options,
    existing_key,
    exit_if_missing,
    kind_and_name,
    object_key,
    pods_of_deployment,
)
from rescheduler.cli.output_formats import output_option, print_document, text_output_option
from rescheduler.cli.terminal import (
    Cell,
    Terminal,
    counted,
    echo,
    echo_lines,
    table,
    table_widths,
    terminal_of,
    wrapped,
)

if TYPE_CHECKING:
    from rescheduler.cluster.pod_record import PodRecord
    from rescheduler.cluster.snapshot import Snapshot
    from rescheduler.config.policy import Policy
    from rescheduler.planner.plan import Plan
    from rescheduler.strategies.make_room import MakeRoom

__all__ = ["FitResult", "InvalidPodManifest", "explain", "fit", "fit_results", "pending_pods"]

_EXIT_MOVES_NEEDED = 3
_MAX_REPLICAS = 1000
_HAS_TEMPLATE = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "PodTemplate")


class InvalidPodManifest(ValueError):  # noqa: N818 - says what the file is
    """The manifest has no pod that could be scheduled."""


@dataclass(frozen=True, slots=True)
class FitResult:
    """Whether one pod fits, and where."""

    pod: str
    fits: str
    """`Now`, `AfterMoves` or `No`."""
    node: str = ""
    why: str = ""
    """Why it does not fit."""


@click.command()
@click.option(
    "-f",
    "--filename",
    required=True,
    metavar="FILE",
    help="Manifest of a pod, or of a workload with a pod template; - for standard input.",
)
@click.option(
    "--replicas",
    type=click.IntRange(1, _MAX_REPLICAS),
    help="Number of such pods; defaults to the workload's own, or 1.",
)
@click.option("-n", "--namespace", metavar="NAME", help="Namespace of the pods, if the manifest has none.")
@click.option(
    "--priority", type=int, help="Priority of the pods; the value of a priorityClassName is not read."
)
@click.option("--max-moves", type=click.IntRange(1, 100), help="Maximum number of moves per pod.")
@cluster_and_config_options
@output_option
def fit(
    *,
    filename: str,
    replicas: int | None,
    namespace: str | None,
    priority: int | None,
    max_moves: int | None,
    cluster: ClusterSource,
    output: str,
) -> None:
    """The command creates and moves nothing.

    It applies the rules of the scheduler and the same protections and limits as MakeRoom.

    Exit codes: 0 if all pods fit now, 3 if some fit after moves, 1 if a pod does not fit or the cluster or
    the file can't be read, 2 for invalid options or an invalid configuration.
    """
    configuration = cluster.effective_configuration()
    pods = _read_pods(filename, namespace or cluster.default_namespace(), replicas, priority)
    policy = _for_what_if(configuration.policy, len(pods), max_moves)
    configuration = replace(configuration, policy=policy)
    snapshot, webhook = cluster.read_snapshot(configuration, more_pods=pods)
    from rescheduler.planner.plan_builder import build_plan  # noqa: PLC0415
    from rescheduler.strategies.make_room import MakeRoom  # noqa: PLC0415

    strategy = MakeRoom(only=[pod.key for pod in pods])
    steered, guarded = webhook.steers, bool(webhook.guards)
    plan = build_plan(snapshot, policy, [strategy], steered=steered, guarded=guarded)
    results = fit_results([pod.key for pod in pods], plan, strategy)
    _print_results(results, plan, output)
    sys.stdout.flush()
    if any(result.fits == "No" for result in results):
        sys.exit(EXIT_ERROR)
    sys.exit(_EXIT_MOVES_NEEDED if plan.moves else 0)


def _for_what_if(policy: "Policy", pods: int, max_moves: int | None) -> "Policy":
    """Return the policy without the limits that delay moves, because `fit` shows which moves are possible."""
    most = max_moves or policy.make_room.max_moves
    from rescheduler.config.move_limits import MovesPerHour  # noqa: PLC0415
    from rescheduler.config.profiles import replace_settings  # noqa: PLC0415

    return replace_settings(
        policy,
        windows=(),
        max_moves_per_hour=MovesPerHour(),
        max_reschedule_pods=max(policy.max_reschedule_pods, pods * most),
        make_room=replace(policy.make_room, max_moves=most),
    )


def fit_results(keys: list[str], plan: "Plan", strategy: "MakeRoom") -> list[FitResult]:
    """Return the result for each pod, in the order of `keys`."""
    rooms = {room.pod: room.node for move in plan.moves for room in move.rooms}
    refused = {each.subject: each.detail for each in plan.refused}
    found = []
    for key in keys:
        if key in strategy.fitting:
            found.append(FitResult(key, "Now", strategy.fitting[key]))
        elif key in rooms:
            found.append(FitResult(key, "AfterMoves", rooms[key]))
        else:
            found.append(FitResult(key, "No", why=refused.get(key, "the pods before it leave no room")))
    return found


def _print_results(results: list[FitResult], plan: "Plan", output: str) -> None:
    if output != "table":
        from rescheduler.planner.plan_json import plan_to_json  # noqa: PLC0415

        pods = [
            {"pod": each.pod, "fits": each.fits, "node": each.node or None, "reason": each.why}
            for each in results
        ]
        print_document({"pods": pods, "plan": plan_to_json(plan)}, output)
        return
    from rescheduler.cli.plan_view import plan_lines  # noqa: PLC0415

    terminal = terminal_of(sys.stdout)
    words = {"Now": "now", "AfterMoves": "after moves", "No": "no"}
    rows = [[Cell(each.pod), Cell(words[each.fits]), Cell(each.node or each.why)] for each in results]
    echo_lines(_result_lines(terminal, rows), color=terminal.colour)
    fitting = sum(each.fits != "No" for each in results)
    now = sum(each.fits == "Now" for each in results)
    after = f", {fitting - now} after {counted(len(plan.moves), 'move')}" if plan.moves else ""
    when = f": {now} now{after}" if fitting else ""
    echo(f"\n{fitting} of {counted(len(results), 'pod')} fit{when}.")
    if plan.moves:
        echo()
        echo_lines(plan_lines(plan, terminal), color=terminal.colour)


def _result_lines(terminal: Terminal, rows: list[list[Cell]]) -> Iterator[str]:
    """Yield a table, or several lines per pod if the table is too wide, because names are never shortened."""
    heads = ("POD", "FITS", "NODE")
    if not terminal.is_narrower_than(sum(table_widths(heads, rows)) + 2 * (len(heads) - 1)):
        yield from table(terminal, heads, rows)
        return
    for pod, fits, where in rows:
        yield pod.text
        yield from wrapped(terminal, f"{fits.text}: {where.text}", indent="  ")


# -- the manifest


def _read_pods(
    filename: str, namespace: str, replicas: int | None, priority: int | None
) -> "list[PodRecord]":
    import yaml  # noqa: PLC0415

    from kubevalues.bounded_yaml import load_yaml  # noqa: PLC0415

    raw, source = read_input_file(filename)
    try:
        manifest = load_yaml(raw.decode())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        exit_with_error(f"{source}: not a manifest: {error}", EXIT_ERROR)
    if not isinstance(manifest, dict):
        exit_with_error(f"{source}: not a manifest: expected one object", EXIT_ERROR)
    try:
        return pending_pods(manifest, namespace, replicas, priority)
    except InvalidPodManifest as error:
        exit_with_error(f"{source}: {error}", EXIT_ERROR)


def pending_pods(
    manifest: dict[str, Any], namespace: str, replicas: int | None, priority: int | None
) -> "list[PodRecord]":
    """Return the pods of a manifest as the scheduler would see them; raise `InvalidPodManifest`."""
    import msgspec  # noqa: PLC0415

    from rescheduler.cluster.codecs.record_resources import PodReader  # noqa: PLC0415

    kind = manifest.get("kind")
    template = _pod_template(manifest)
    metadata, own = _block(template, "metadata"), _block(manifest, "metadata")
    spec = _with_defaults(_block(template, "spec"), priority)
    count = replicas or (1 if kind == "Pod" else _replicas(_block(manifest, "spec")))
    name = str(own.get("name") or str(own.get("generateName") or "").rstrip("-") or "pod")
    reader, found = PodReader(), []
    for number in range(min(count, _MAX_REPLICAS)):
        pod = {
            "metadata": {
                "name": name if kind == "Pod" and count == 1 else f"{name}-{number}",
                "namespace": str(own.get("namespace") or namespace),
                "uid": f"fit-{number}",
                "labels": metadata.get("labels") or {},
                "annotations": metadata.get("annotations") or {},
            },
            "spec": spec,
            "status": {"phase": "Pending"},
        }
        try:
            found.append(reader.from_json(msgspec.json.encode(pod)))
        except (msgspec.MsgspecError, ValueError, TypeError) as error:
            raise InvalidPodManifest(f"not a valid pod: {error}") from error
    return found


def _pod_template(manifest: dict[str, Any]) -> dict[str, Any]:
    kind = manifest.get("kind")
    if kind == "Pod":
        return manifest
    if kind not in _HAS_TEMPLATE:
        raise InvalidPodManifest(f"expected a Pod or a workload with a pod template, not kind {kind!r}")
    holder = manifest if kind == "PodTemplate" else _block(manifest, "spec")
    if kind == "CronJob":
        holder = _block(_block(holder, "jobTemplate"), "spec")
    return _block(holder, "template")


def _block(holder: dict[str, Any], name: str) -> dict[str, Any]:
    return _object(holder.get(name) or {}, name)


def _object(found: Any, name: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise InvalidPodManifest(f"{name} must be an object")
    return found


def _replicas(spec: dict[str, Any]) -> int:
    found = spec.get("replicas")
    if found is not None and (type(found) is not int or found < 0):
        raise InvalidPodManifest(f"spec.replicas must be a number of pods, not {found!r}")
    return found or 1


def _with_defaults(spec: dict[str, Any], priority: int | None) -> dict[str, Any]:
    """Return the spec with the API server's defaults for the fields that the scheduler reads."""
    if not spec.get("containers"):
        raise InvalidPodManifest("the pod has no containers")
    if spec.get("nodeName"):
        raise InvalidPodManifest("the pod names its node (spec.nodeName), so the scheduler does not place it")
    if priority is None and spec.get("priority") is None and spec.get("priorityClassName"):
        print_note(f"priority class {spec['priorityClassName']} is not read; specify --priority")
    found = {
        "schedulerName": "default-scheduler",
        "restartPolicy": "Always",
        **spec,
        "priority": priority if priority is not None else spec.get("priority") or 0,
    }
    for name in ("containers", "initContainers"):
        containers = spec.get(name) or []
        if not isinstance(containers, list):
            raise InvalidPodManifest(f"spec.{name} must be a list")
        if containers:
            found[name] = [
                _with_requests(_object(each, f"spec.{name}[{at}]")) for at, each in enumerate(containers)
            ]
    return found


def _with_requests(container: dict[str, Any]) -> dict[str, Any]:
    """Return the container with a request for each limit without one, as the API server adds it."""
    resources = _block(container, "resources")
    requests = {**_block(resources, "limits"), **_block(resources, "requests")}
    return {**container, "resources": {**resources, "requests": requests}}


# -- explain


@click.command()
@click.argument("kind", metavar="pod|node|deployment")
@click.argument("name", metavar="NAME", required=False)
@click.option(
    "-n", "--namespace", metavar="NAME", help="Namespace of the pod; defaults to the one of the context."
)
@cluster_and_config_options
@text_output_option
def explain(kind: str, name: str | None, namespace: str | None, cluster: ClusterSource, output: str) -> None:
    """For a pod, the output says whether it can move, why not, and why each other node can't take it.

    Name a pod as for kubectl, with -n NAMESPACE, or as NAMESPACE/NAME. `pod NAME` and `pod/NAME` are the
    same. A unique prefix of a name is enough. deploy/NAME means all pods of the Deployment.
    """
    kind, name = kind_and_name(kind, name)
    configuration = cluster.effective_configuration()
    key = name if kind == "node" else object_key(name, namespace, cluster)
    snapshot, webhook = cluster.read_snapshot(configuration, meanwhile=["rescheduler.planner.explanation"])
    webhooks: dict[str, Any] = {"steered": webhook.steers, "guarded": bool(webhook.guards)}
    if kind == "deployment":
        keys = pods_of_deployment(key, snapshot)
    else:
        keys = [existing_key(key, snapshot.pods.row if kind == "pod" else snapshot.nodes.row)]
        exit_if_missing(kind, keys[0], snapshot)
    if kind == "node":
        _explain_node(keys[0], snapshot, configuration.policy, webhooks, output)
        return
    from rescheduler.cli.explain_view import explanation_document, pod_explanation_blocks  # noqa: PLC0415
    from rescheduler.planner.explanation import explain_pod  # noqa: PLC0415

    pods = [explain_pod(snapshot, configuration.policy, each, **webhooks) for each in keys]
    if output != "text":
        documents = [explanation_document(each, (*snapshot.assumptions, *each.assumptions)) for each in pods]
        print_document({"pods": documents} if kind == "deployment" else documents[0], output)
        return
    terminal = terminal_of(sys.stdout)
    if kind == "deployment":
        movable = sum(each.may_move for each in pods)
        words = f"Deployment {key}: {movable} of {counted(len(keys), 'pod')} can move"
        echo_lines([*wrapped(terminal, words, indent=""), ""])
    for place, lines in enumerate(pod_explanation_blocks(pods, snapshot.assumptions, terminal)):
        echo_lines(lines if not place else ["", *lines], color=terminal.colour)


def _explain_node(
    name: str, snapshot: "Snapshot", policy: "Policy", webhooks: dict[str, Any], output: str
) -> None:
    from rescheduler.cli.explain_view import explanation_document, explanation_lines  # noqa: PLC0415
    from rescheduler.planner.explanation import explain_node  # noqa: PLC0415
    from rescheduler.web.what_if import with_maintenance  # noqa: PLC0415

    node = explain_node(snapshot, policy, name, **webhooks)
    assumptions = (*snapshot.assumptions, *node.assumptions)
    if output != "text":
        print_document(explanation_document(node, assumptions), output)
        return
    terminal = terminal_of(sys.stdout)
    echo_lines(explanation_lines(node, assumptions, terminal), color=terminal.colour)
    # Some limits don't apply to a drain.
    drained = explain_node(with_maintenance(snapshot, [name]), policy, name, **webhooks)
    now, then = (sum(not pod.kept_by for pod in each.pods) for each in (node, drained))
    if then > now:
        echo(f"\n`rescheduler drain {name}` can move {then} of its pods.")
