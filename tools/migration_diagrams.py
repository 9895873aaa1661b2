"""The course of a migration as diagrams, drawn from the table: what is in the docs can't differ from it."""

import sys
from collections.abc import Iterator, Mapping
from typing import Final

from rescheduler.api.podmigration import Handover, MigrationPhase
from rescheduler.migrations.transition_table import TRANSITIONS, MigrationStep, Trigger, phase_of
from tools.generated_section import GeneratedSection

__all__ = ["diagrams", "main"]

_WAY_BACK: Final = frozenset({MigrationStep.ROLLING_BACK, MigrationStep.FAILED})


def diagrams() -> str:
    return "\n".join(
        line for handover in (Handover.ADOPT, Handover.COPY, Handover.EVICT) for line in _section(handover)
    )


def _section(handover: Handover) -> Iterator[str]:
    yield f"### {handover}"
    yield ""
    yield "```mermaid"
    yield "stateDiagram-v2"
    yield f"    [*] --> {MigrationStep.QUEUED}"
    transitions = TRANSITIONS[handover]
    for (step, then), events in _arrows(transitions).items():
        yield f"    {step} --> {then}: {' / '.join(events)}"
    for step in (MigrationStep.COMPLETED, MigrationStep.FAILED):
        yield f"    {step} --> [*]"
    yield "```"
    yield ""
    yield "| step | leads back | because |"
    yield "|---|---|---|"
    for step, then, reasons in _ways_back(transitions):
        yield f"| {step} | {then} | {', '.join(reasons)} |"
    yield ""


def _arrows(
    transitions: Mapping[tuple[MigrationStep, Trigger], MigrationStep],
) -> dict[tuple[MigrationStep, MigrationStep], list[str]]:
    """What the picture shows: the way forward, and where the way back ends."""
    found: dict[tuple[MigrationStep, MigrationStep], list[str]] = {}
    for (step, event), then in transitions.items():
        if then not in _WAY_BACK or step in {MigrationStep.ROLLING_BACK, MigrationStep.RELEASING}:
            found.setdefault((step, then), []).append(event)
    return found


def _ways_back(
    transitions: Mapping[tuple[MigrationStep, Trigger], MigrationStep],
) -> Iterator[tuple[MigrationStep, MigrationStep, list[Trigger]]]:
    """All others, which would hide the picture under their arrows."""
    for step in MigrationStep:
        if phase_of(step) in {MigrationPhase.COMPLETED, MigrationPhase.FAILED} or step in {
            MigrationStep.ROLLING_BACK,
            MigrationStep.RELEASING,
        }:
            continue
        for then in (MigrationStep.ROLLING_BACK, MigrationStep.FAILED):
            events = [event for event in Trigger if transitions.get((step, event)) is then]
            if events:
                yield step, then, events


main = GeneratedSection(diagrams).main


if __name__ == "__main__":
    sys.exit(main())
