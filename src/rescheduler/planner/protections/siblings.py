"""What evicting a pod would mean for its siblings, and they for its successor."""

from rescheduler.model.plan import Handover
from rescheduler.planner.protections.case import Because, Case
from rescheduler.planner.protections.crews import Crew
from rescheduler.planner.stateful_sets import goes_in_order, ordinal_of

__all__ = ["revision_pending", "sibling_not_ready"]


def sibling_not_ready(case: Case) -> Because | None:
    if case.handover is not Handover.EVICT or case.is_owned_by("Job"):
        return None
    crew = case.around.crew(case.row)
    return None if crew is None else _out_of_order(case, crew) or _one_too_many(case, crew)


def _out_of_order(case: Case, crew: Crew) -> Because | None:
    """Whether its StatefulSet would not make its successor for the time being."""
    if case.owner is None or not case.is_owned_by("StatefulSet"):
        return None
    ordinal = ordinal_of(case.pod)
    if ordinal is None or ordinal <= crew.gap or not goes_in_order(case.around.record(case.row)):
        return None
    missed = f"{case.owner.name}-{crew.gap}"
    return Because(f"its StatefulSet makes no {case.pod.name} before {missed} is ready", case.owner_name)


def _one_too_many(case: Case, crew: Crew) -> Because | None:
    """Where no budget says how many may be missing, it is one: whoever evicts makes a budget of that."""
    if not case.snapshot.pods.ready[case.row] or case.around.budgets.covering(case.row):
        return None
    replicas = case.around.replicas(case.row)
    if crew.ready >= replicas:
        return None
    missed = f"{crew.unready} is not" if crew.unready else "one is missing"
    return Because(f"of its workload's {replicas} pods {crew.ready} are ready: {missed}", case.owner_name)


def revision_pending(case: Case) -> Because | None:
    """Maintenance goes on all the same, as whoever drains a node would, and says so."""
    if case.urgent or case.handover is not Handover.EVICT:
        return None
    revision = case.around.other_revision(case.row)
    return Because(f"its successor would be of revision {revision}", case.owner_name) if revision else None
