"""`rescheduler move`."""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from rescheduler.cli.cluster_source import EXIT_ERROR, ClusterSource, exit_with_error, print_words
from rescheduler.cli.command_options import (
    confirmed,
    deployment_key,
    effective_config_options,
    existing_key,
    exit_if_missing,
    namespace_option,
    object_key,
    pods_of_deployment,
)
from rescheduler.cli.execution import (
    CONTINUE_HINT,
    EXIT_INTERRUPTED,
    Execution,
    execute_plan,
    execution_options,
    requesting_user,
)
from rescheduler.cli.output_formats import output_option, print_document

if TYPE_CHECKING:
    from rescheduler.cluster.snapshot import Snapshot
    from rescheduler.config.policy import Configuration
    from rescheduler.daemon.components import Rescheduler
    from rescheduler.migrations.controller.plan_execution import PlanExecution
    from rescheduler.planner.plan import Rejection

__all__ = ["move"]

_MANUAL_REMEDIES: Final = {
    "Gone": "To list the pods, run: kubectl get pods -A",
    "TargetUnfit": "Choose another node with --to, or omit --to to use the best node.",
}
"""Remedies for a pod and a node that the user named."""


@click.command()
@click.argument("pod", metavar="POD")
@namespace_option
@click.option("--to", "target", metavar="NODE", help="Target node; defaults to the best one.")
@click.option("--dry-run", is_flag=True, help="Only check whether the pods can be moved; change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Don't ask before all pods of a Deployment are moved.")
@effective_config_options
@execution_options
@output_option
def move(  # noqa: PLR0913 - one per option
    *,
    pod: str,
    namespace: str | None,
    target: str | None,
    dry_run: bool,
    yes: bool,
    cluster: ClusterSource,
    install: bool,
    output: str,
) -> None:
    """Name a pod as for kubectl, with -n NAMESPACE, or as NAMESPACE/NAME. deploy/NAME means all pods of the
    Deployment, one after the other. A unique prefix of a name is enough.

    A copy is ready before the pod is evicted, if the owner of the pod allows it. If the pod can't be moved,
    the command prints the reason and the remedy. Limits that prevent frequent moves (minPodAge, podCooldown,
    windows) don't apply.

    Exit codes: 0 if the pod was moved, 1 if it was not, 2 for invalid options or an invalid configuration,
    130 after Ctrl-C.
    """
    configuration = cluster.effective_configuration()
    deployment = deployment_key(pod, namespace, cluster)
    key = object_key(pod, namespace, cluster) if deployment is None else deployment
    if dry_run or deployment is not None:
        keys = _preview_move(cluster, configuration, key, target, is_deployment=deployment is not None)
        if dry_run:
            print_words("Dry run: nothing was changed.")
            return
        if not yes and not confirmed(f"Move all {len(keys)} pods of Deployment {key}?"):
            exit_with_error("nothing was moved", EXIT_ERROR)
    else:
        keys = []
    from rescheduler.cli.progress_display import progress_display_for  # noqa: PLC0415

    progress = progress_display_for(output, configuration.policy.settle_time)

    async def moved(rescheduler: "Rescheduler") -> "PlanExecution | list[Rejection]":
        from rescheduler.daemon.manual_plans import manual_move_refusals, manual_plan  # noqa: PLC0415

        snapshot = rescheduler.cluster.snapshot()
        wanted = keys or [_existing_pod(key, snapshot)]
        for each in wanted:
            if refusals := manual_move_refusals(snapshot, each, target, rescheduler.runtime.current):
                return refusals
        user = await requesting_user(rescheduler.client)
        plans = [manual_plan(snapshot, each, target, user) for each in wanted]
        moves = tuple(replace(plan.moves[0], wave=wave) for wave, plan in enumerate(plans))
        return await execute_plan(rescheduler, replace(plans[0], moves=moves), progress, requested_by=user)

    execution = Execution(cluster, configuration, install)
    execution.prepare()
    found = execution.run(moved)
    if isinstance(found, list):
        _report_refusals(found[0].subject, found, output)
        sys.exit(EXIT_ERROR)
    _report_moves(found, output)
    if progress.is_interrupted:
        if any(each.is_under_way for each in found.moves):
            print_words(CONTINUE_HINT)
        sys.exit(EXIT_INTERRUPTED)
    sys.exit(0 if all(each.is_completed for each in found.moves) else EXIT_ERROR)


def _report_moves(run: "PlanExecution", output: str) -> None:
    from rescheduler.cli.move_status import (  # noqa: PLC0415
        failure_lines,
        failure_remedy,
        move_results,
        moves_summary,
    )

    if output != "table":
        results = move_results(run.moves)
        print_document(results[0] if len(results) == 1 else {"moves": results}, output)
    elif len(run.moves) > 1:
        print_words("\n".join([moves_summary(run.moves), *failure_lines(run.moves)]), err=False)
    else:
        for each in run.moves:
            if each.is_over and not each.is_completed:
                print_words(f"{each.move.pod} was not moved. {failure_remedy(each)}")
    sys.stdout.flush()


def _preview_move(
    cluster: ClusterSource,
    configuration: "Configuration",
    key: str,
    target: str | None,
    *,
    is_deployment: bool,
) -> list[str]:
    """Print whether the pods can be moved, and return their keys; exit if one of them can't."""
    from rescheduler.daemon.manual_plans import likely_targets, manual_move_refusals  # noqa: PLC0415
    from rescheduler.migrations.runtime_state import RuntimeState, SteeringStatus  # noqa: PLC0415

    snapshot, webhook = cluster.read_snapshot(configuration)
    keys = pods_of_deployment(key, snapshot) if is_deployment else [_existing_pod(key, snapshot)]
    state = RuntimeState(configuration.policy, SteeringStatus(bool(webhook.steers), bool(webhook.guards)))
    refused = {pod: found for pod in keys if (found := manual_move_refusals(snapshot, pod, target, state))}
    for pod, refusals in refused.items():
        _report_refusals(pod, refusals, "table")
    movable = [pod for pod in keys if pod not in refused]
    for pod, (best, handover) in zip(movable, likely_targets(snapshot, movable, state), strict=True):
        node = snapshot.pods.records[snapshot.pods.row[pod]].node
        print_words(f"{pod} can be moved from {node} to {target or best} ({handover})")
    if refused:
        exit_with_error("nothing was moved", EXIT_ERROR)
    return keys


def _existing_pod(key: str, snapshot: "Snapshot") -> str:
    """Return the pod's key; exit and print similar names if no pod or several pods match."""
    found = existing_key(key, snapshot.pods.row)
    exit_if_missing("pod", found, snapshot)
    return found


def _report_refusals(key: str, refusals: "list[Rejection]", output: str) -> None:
    from rescheduler.planner.reasons import meaning_and_remedy  # noqa: PLC0415

    remedies = [_MANUAL_REMEDIES.get(each.reason) or meaning_and_remedy(each.reason)[1] for each in refusals]
    if output != "table":
        documents = [
            {
                "reason": each.reason,
                "by": each.by,
                "detail": each.detail,
                "remedy": remedy,
            }
            for each, remedy in zip(refusals, remedies, strict=True)
        ]
        print_document({"pod": key, "result": "Refused", "refusals": documents}, output)
        return
    print_words(f"{key} can't be moved")
    for each, remedy in zip(refusals, remedies, strict=True):
        print_words(f"  - {each.reason}: {each.detail}")
        if remedy:
            print_words(f"    {remedy}")
