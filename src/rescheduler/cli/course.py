"""How far a move is, in one word and in words; and what became of all of them."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rescheduler.cli.wording import counted
from rescheduler.controller.plan_run import Errand
from rescheduler.migrations.advance import senseless
from rescheduler.migrations.steps import Step
from rescheduler.model.migrations import ConditionType, Migration, Phase
from rescheduler.model.plan import Handover
from rescheduler.planner.reasons import REMEDIES

__all__ = [
    "COLOURS",
    "failures",
    "is_worth_telling",
    "remedy_of",
    "results",
    "share_done",
    "share_of",
    "state_of",
    "summary",
]

COLOURS: Final = {"Completed": "green", "Failed": "red", "Given up": "yellow"}

_UNDER_WAY: Final = {
    Step.CHECKING: "is checked once more",
    Step.EVICTING: "its successor is ready, and it is evicted",
    Step.REPLACING: "evicted; its successor starts",
    Step.SETTLING: "its successor is ready, and waits for the others of its group",
    Step.ROLLING_BACK: "is rolled back",
}
_TELLING: Final = frozenset(
    {
        Step.CREATING,
        Step.PLACING,
        Step.STARTING,
        Step.PROTECTING,
        Step.ADOPTING,
        Step.REPLACING,
        Step.RELEASING,
    }
)
"""On record only if they last: their message says what is waited for."""

_BEFORE: Final = (Step.QUEUED, Step.CHECKING, Step.MARKING)
_COPIED: Final = (Step.CREATING, Step.PLACING, Step.STARTING, Step.SETTLING, Step.EVICTING)
_STEPS: Final = {
    Handover.ADOPT: (*_BEFORE, *_COPIED, Step.ADOPTING, Step.RELEASING),
    Handover.COPY: (*_BEFORE, *_COPIED, Step.RELEASING),
    Handover.EVICT: (*_BEFORE, Step.PROTECTING, Step.EVICTING, Step.REPLACING, Step.RELEASING),
}
_REMEDIES: Final = {str(reason): remedy for reason, (_, remedy) in REMEDIES.items()}


def state_of(errand: Errand) -> tuple[str, str]:
    """In one word, and in words."""
    migration = errand.migration
    if errand.given_up:
        return "Given up", errand.given_up
    if migration is None:
        return "Planned", ""
    status = migration.status
    match status.phase:
        case Phase.PENDING:
            return "Pending", status.message
        case Phase.IN_PROGRESS:
            return "InProgress", _course(migration)
        case Phase.COMPLETED:
            successor = status.target_pod.name if status.target_pod else ""
            return "Completed", f"{successor}{_elsewhere(migration)}"
        case _:
            return "Failed", status.message


def is_worth_telling(errand: Errand) -> bool:
    """What only waits for its turn is not: nobody would learn anything."""
    state, words = state_of(errand)
    return state not in {"Planned", "Pending"} or bool(words)


def share_done(errand: Errand) -> float:
    """Of its way, by the steps that it has taken; on the way back it is nothing."""
    return 0.0 if errand.migration is None or errand.given_up else share_of(errand.migration)


def share_of(migration: Migration) -> float:
    if migration.status.phase is Phase.COMPLETED:
        return 1.0
    steps = _STEPS.get(migration.status.handover or Handover.AUTO, _STEPS[Handover.ADOPT])
    step = migration.status.step or Step.QUEUED
    return steps.index(step) / len(steps) if step in steps else 0.0


def _course(migration: Migration) -> str:
    if why := senseless(migration):
        return why
    status = migration.status
    step = Step(status.step or Step.QUEUED)
    words = _UNDER_WAY.get(step, f"is being moved, by {status.handover}")
    if step is Step.EVICTING and status.handover is Handover.EVICT:
        words = "is evicted; its successor comes after it"
    if step is Step.ROLLING_BACK and status.message:
        return f"{words}: {status.message}"
    if step is Step.EVICTING and _is_refused(migration):
        return status.message or words
    return status.message if step in _TELLING and status.message else words


def _is_refused(migration: Migration) -> bool:
    allows = migration.status.condition(ConditionType.BUDGET_ALLOWS)
    return allows is not None and allows.status == "False"


def _elsewhere(migration: Migration) -> str:
    steered = migration.status.condition(ConditionType.STEERED)
    return " came to another node" if steered is not None and steered.status == "False" else ""


# -- all of them


def summary(errands: Sequence[Errand]) -> str:
    completed = sum(errand.is_completed for errand in errands)
    left = [errand for errand in errands if not errand.is_over]
    begun = sum(errand.is_under_way for errand in left)
    failed = sum(errand.is_over and not errand.is_completed and not errand.given_up for errand in errands)
    given_up = len(errands) - completed - failed - begun
    parts = [f"{completed} of {counted(len(errands), 'move')} made"]
    parts += [f"{number} {what}" for number, what in (
        (failed, "failed"), (begun, "still under way"), (given_up, "not made")
    ) if number]  # fmt: skip
    return ", ".join(parts) + "."


def failures(errands: Sequence[Errand]) -> Iterator[str]:
    """What failed, on which pod, why, and what to do about it; as lines."""
    for errand in errands:
        migration = errand.migration
        if migration is None or migration.status.phase is not Phase.FAILED:
            continue
        yield f"  {errand.move.pod}: {migration.status.message or migration.status.failure or 'failed'}"
        yield f"    {remedy_of(errand)}"


def remedy_of(errand: Errand) -> str:
    """What to do about one that failed."""
    failure = errand.migration.status.failure if errand.migration is not None else ""
    namespace, _, name = errand.key.partition("/")
    return _REMEDIES.get(failure) or f"Its story: rescheduler migrations -n {namespace} {name}"


def results(errands: Sequence[Errand]) -> list[dict[str, Any]]:
    """For programs."""
    return [_result(errand) for errand in errands]


def _result(errand: Errand) -> dict[str, Any]:
    move, migration = errand.move, errand.migration
    state, words = state_of(errand)
    namespace = move.pod.partition("/")[0]
    successor = migration.status.target_pod if migration is not None else None
    return {
        "pod": move.pod,
        "uid": move.uid,
        "from": move.source,
        "to": (migration.target_node if migration is not None else "") or move.target,
        "strategy": move.strategy,
        "handover": str((migration.status.handover if migration is not None else None) or move.handover),
        "migration": errand.key or None,
        "result": "GivenUp" if errand.given_up else state,
        "successor": f"{namespace}/{successor.name}" if successor is not None else None,
        "attempts": migration.status.attempts if migration is not None else 0,
        "message": (migration.status.message if migration is not None else "") or words,
    }
