"""The course of a migration as diagrams, drawn from the table: what is in the docs can't differ from it."""

import sys
from collections.abc import Iterator, Mapping
from typing import Final

from rescheduler.generated_part import GeneratedPart
from rescheduler.migrations.steps import NEXT, Event, Step, phase_of
from rescheduler.model.migrations import Phase
from rescheduler.model.plan import Handover

__all__ = ["diagrams", "main"]

_BACKWARDS: Final = frozenset({Step.ROLLING_BACK, Step.FAILED})


def diagrams() -> str:
    return "\n".join(
        line for handover in (Handover.ADOPT, Handover.COPY, Handover.EVICT) for line in _section(handover)
    )


def _section(handover: Handover) -> Iterator[str]:
    yield f"### {handover}"
    yield ""
    yield "```mermaid"
    yield "stateDiagram-v2"
    yield f"    [*] --> {Step.QUEUED}"
    transitions = NEXT[handover]
    for (step, then), events in _arrows(transitions).items():
        yield f"    {step} --> {then}: {' / '.join(events)}"
    for step in (Step.COMPLETED, Step.FAILED):
        yield f"    {step} --> [*]"
    yield "```"
    yield ""
    yield "| step | leads back | because |"
    yield "|---|---|---|"
    for step, then, reasons in _ways_back(transitions):
        yield f"| {step} | {then} | {', '.join(reasons)} |"
    yield ""


def _arrows(transitions: Mapping[tuple[Step, Event], Step]) -> dict[tuple[Step, Step], list[str]]:
    """What the picture shows: the way forward, and where the way back ends."""
    found: dict[tuple[Step, Step], list[str]] = {}
    for (step, event), then in transitions.items():
        if then not in _BACKWARDS or step in {Step.ROLLING_BACK, Step.RELEASING}:
            found.setdefault((step, then), []).append(event)
    return found


def _ways_back(
    transitions: Mapping[tuple[Step, Event], Step],
) -> Iterator[tuple[Step, Step, list[Event]]]:
    """All others, which would hide the picture under their arrows."""
    for step in Step:
        if phase_of(step) in {Phase.COMPLETED, Phase.FAILED} or step in {Step.ROLLING_BACK, Step.RELEASING}:
            continue
        for then in (Step.ROLLING_BACK, Step.FAILED):
            events = [event for event in Event if transitions.get((step, event)) is then]
            if events:
                yield step, then, events


main = GeneratedPart(diagrams).main


if __name__ == "__main__":
    sys.exit(main())
