"""The diagrams show the table, all of it and nothing else."""

import re

from rescheduler.api.podmigration import Handover
from rescheduler.migrations.transition_table import TRANSITIONS
from tools.migration_diagrams import diagrams


def test_every_transition_of_the_table_is_drawn_or_listed():
    sections = re.split(r"^### ", diagrams(), flags=re.MULTILINE)[1:]
    for section in sections:
        handover = Handover(section.partition("\n")[0])
        arrows = re.findall(r"^    (\w+) --> (\w+): (.+)$", section, flags=re.MULTILINE)
        rows = re.findall(r"^\| (\w+) \| (\w+) \| (.+) \|$", section, flags=re.MULTILINE)
        drawn = {(step, event, then) for step, then, events in arrows for event in events.split(" / ")}
        drawn |= {(step, event, then) for step, then, events in rows for event in events.split(", ")}
        drawn = {each for each in drawn if each[0] != "step"}
        assert drawn == {(step, event, then) for (step, event), then in TRANSITIONS[handover].items()}
