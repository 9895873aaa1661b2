"""Draw the steps of a migration as pictures, from the transition table, so that the docs can't differ from
it.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from rescheduler.api.podmigration import Handover, MigrationPhase
from rescheduler.migrations.transition_table import TRANSITIONS, MigrationStep, Trigger, phase_of
from tools.generated_section import GeneratedSection
from tools.svg_picture import Picture

__all__ = ["diagrams", "main", "pictures"]

_ROLLBACK: Final = frozenset({MigrationStep.ROLLING_BACK, MigrationStep.FAILED})


def diagrams() -> str:
    return "\n".join(
        line for handover in (Handover.ADOPT, Handover.COPY, Handover.EVICT) for line in _section(handover)
    )


def _section(handover: Handover) -> Iterator[str]:
    yield f"### {handover}"
    yield ""
    yield f"![The steps of {handover}](images/migration-{handover.lower()}.svg)"
    yield ""
    transitions = TRANSITIONS[handover]
    yield "| step | leads back | because |"
    yield "|---|---|---|"
    for step, then, reasons in _rollbacks(transitions):
        yield f"| {step} | {then} | {', '.join(reasons)} |"
    yield ""


def _arrows(
    transitions: Mapping[tuple[MigrationStep, Trigger], MigrationStep],
) -> dict[tuple[MigrationStep, MigrationStep], list[str]]:
    """Return the arrows of the diagram: the way forward, and where the way back ends."""
    found: dict[tuple[MigrationStep, MigrationStep], list[str]] = {}
    for (step, event), then in transitions.items():
        if then not in _ROLLBACK or step in {MigrationStep.ROLLING_BACK, MigrationStep.RELEASING}:
            found.setdefault((step, then), []).append(event)
    return found


def _rollbacks(
    transitions: Mapping[tuple[MigrationStep, Trigger], MigrationStep],
) -> Iterator[tuple[MigrationStep, MigrationStep, list[Trigger]]]:
    """Yield the transitions that the diagram leaves out, because it would be unreadable with their arrows."""
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


_LEFT, _WIDTH, _HEIGHT, _ROW = 190.0, 130.0, 28.0, 56.0
_ROLLBACK_LEFT = 640.0


def pictures() -> dict[str, str]:
    """Return the picture of each handover, by its file name."""
    return {
        f"migration-{handover.lower()}.svg": _picture(handover)
        for handover in (Handover.ADOPT, Handover.COPY, Handover.EVICT)
    }


def _picture(handover: Handover) -> str:
    transitions = TRANSITIONS[handover]
    arrows = _arrows(transitions)
    steps = [step for step in MigrationStep if step not in _ROLLBACK and any(step in pair for pair in arrows)]
    tops = {step: 16 + _ROW * row for row, step in enumerate(steps)}
    end = tops[MigrationStep.COMPLETED]
    picture = Picture(790, int(end + _HEIGHT + 16), f"The steps of {handover}")
    for step, top in tops.items():
        fill = "good" if step is MigrationStep.COMPLETED else "blue"
        picture.box(_LEFT, top, _WIDTH, _HEIGHT, str(step), fill=fill)
    first = tops[MigrationStep.QUEUED]
    height = tops[MigrationStep.RELEASING] + _HEIGHT - first
    picture.box(_ROLLBACK_LEFT, first, _WIDTH, height, str(MigrationStep.ROLLING_BACK), fill="warm")
    picture.box(_ROLLBACK_LEFT, end, _WIDTH, _HEIGHT, str(MigrationStep.FAILED), fill="bad")
    for step, then, _ in _rollbacks(transitions):
        if then is MigrationStep.ROLLING_BACK:
            middle = tops[step] + _HEIGHT / 2 + 8
            picture.arrow((_LEFT + _WIDTH, middle), (_ROLLBACK_LEFT, middle), dashed=True)
    for (step, then), events in arrows.items():
        _draw_arrow(picture, tops, (step, then), " / ".join(events))
    return picture.svg()


def _draw_arrow(
    picture: Picture,
    tops: Mapping[MigrationStep, float],
    pair: tuple[MigrationStep, MigrationStep],
    label: str,
) -> None:
    step, then = pair
    picture.describe(f"{step} → {then}: {label}")
    bottom = tops[MigrationStep.COMPLETED]
    if step is MigrationStep.ROLLING_BACK and then is MigrationStep.FAILED:
        middle = _ROLLBACK_LEFT + _WIDTH / 2
        picture.arrow((middle, bottom - _ROW + _HEIGHT), (middle, bottom))
        picture.text(middle - 8, bottom - 10, label, anchor="end")
    elif step is MigrationStep.ROLLING_BACK:
        middle = tops[then] + _HEIGHT / 2 - 6
        picture.arrow((_ROLLBACK_LEFT, middle), (_LEFT + _WIDTH, middle))
        picture.text(_ROLLBACK_LEFT - 8, middle - 5, label, anchor="end")
    elif then is MigrationStep.FAILED:
        start, row, corner = tops[step] + _HEIGHT / 2, bottom + _HEIGHT / 2, _LEFT + _WIDTH + 90
        picture.arrow((_LEFT + _WIDTH, start), (corner, start), (corner, row), (_ROLLBACK_LEFT, row))
        picture.text(corner + 8, row - 5, label)
    elif tops[then] > tops[step]:
        middle = _LEFT + _WIDTH / 2
        picture.arrow((middle, tops[step] + _HEIGHT), (middle, tops[then]))
        picture.text(middle + 8, tops[then] - 10, label)
    else:
        start, end = tops[step] + _HEIGHT / 2, tops[then] + _HEIGHT / 2
        picture.arrow((_LEFT, start), (_LEFT - 24, start), (_LEFT - 24, end), (_LEFT, end))
        picture.text(_LEFT - 30, (start + end) / 2 + 4, label, anchor="end")


def main() -> int:
    """Check or write the section of a document and its pictures (`--check FILE`, `--write FILE`)."""
    folder = Path(sys.argv[-1]).parent / "images"
    stale = False
    for name, picture in pictures().items():
        if "--write" in sys.argv:
            (folder / name).write_text(picture, encoding="utf-8")
        elif not (folder / name).exists() or (folder / name).read_text(encoding="utf-8") != picture:
            sys.stderr.write(f"{folder / name} is out of date: run `make generate`\n")
            stale = True
    return GeneratedSection(diagrams).main() or int(stale)


if __name__ == "__main__":
    sys.exit(main())
