"""An explanation as JSON."""

from collections.abc import Iterable
from typing import Any

from rescheduler.cli.explain_recovery import recovery_form, suspicion_form
from rescheduler.model.plan import Rejection
from rescheduler.planner.explaining import NodeExplanation, PodExplanation, Tenant
from rescheduler.planner.places import Places
from rescheduler.planner.reasons import REMEDIES
from rescheduler.planner.recovery_explained import Recovery

__all__ = ["form_of"]

Form = dict[str, Any]
_REMEDIES = {str(reason): remedy for reason, (_, remedy) in REMEDIES.items()}


def form_of(told: PodExplanation | NodeExplanation, assumptions: Iterable[str]) -> Form:
    form = _pod(told) if isinstance(told, PodExplanation) else _node(told)
    return {**form, "assumptions": list(assumptions)}


def _pod(told: PodExplanation) -> Form:
    return {
        "pod": told.pod,
        "node": told.node or None,
        "mayMove": told.may_move,
        "inWindow": told.in_window,
        "handover": told.handover and told.handover.value,
        "why": told.why,
        "assumed": told.assumed,
        "keptBy": _refusals(told.kept_by),
        "keptInMaintenanceBy": _refusals(told.kept_in_maintenance_by),
        "group": told.group,
        "members": list(told.members),
        "places": None if told.places is None else _places(told.places),
        "recovery": _recovery(told.recovery),
    }


def _recovery(told: Recovery | None) -> Form | None:
    form = recovery_form(told)
    return form if form is None or told is None else {**form, "keptBy": _refusals(told.kept_by)}


def _places(places: Places) -> Form:
    return {
        "nodes": places.nodes,
        "available": list(places.available),
        "forbidden": [
            {
                "rule": str(each.rule),
                "reason": each.reason,
                "nodes": [{"node": node, "detail": detail} for node, detail in each.nodes],
            }
            for each in places.forbidden
        ],
    }


def _node(told: NodeExplanation) -> Form:
    return {
        "node": told.node,
        "ready": told.ready,
        "schedulable": told.schedulable,
        "inMaintenance": told.in_maintenance,
        "inWindow": told.in_window,
        "suspect": suspicion_form(told.suspicion),
        "loads": dict(told.loads),
        "pods": [_tenant(each) for each in told.tenants],
        "takesNone": told.takes_none,
        "couldCome": told.could_come,
        "allAsked": told.all_asked,
        "couldComeExamples": list(told.could_come_examples),
    }


def _tenant(tenant: Tenant) -> Form:
    return {
        "pod": tenant.pod,
        "handover": tenant.handover and tenant.handover.value,
        "keptBy": _refusals(tenant.kept_by),
        "targets": tenant.targets,
    }


def _refusals(found: Iterable[Rejection]) -> list[Form]:
    return [
        {
            "reason": str(each.reason),
            "by": each.by,
            "detail": each.detail,
            "remedy": _REMEDIES.get(each.reason, ""),
        }
        for each in found
    ]
