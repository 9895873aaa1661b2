"""The diagrams show every transition of the table and no other."""

import re
from html import unescape

from rescheduler.api.podmigration import Handover
from rescheduler.migrations.transition_table import TRANSITIONS
from tools.migration_diagrams import diagrams, pictures


def test_every_transition_of_the_table_is_drawn_or_listed():
    sections = re.split(r"^### ", diagrams(), flags=re.MULTILINE)[1:]
    for section in sections:
        handover = Handover(section.partition("\n")[0])
        picture = pictures()[f"migration-{handover.lower()}.svg"]
        arrows = re.findall(r"<desc>(\w+) → (\w+): (.+)</desc>", picture)
        rows = re.findall(r"^\| (\w+) \| (\w+) \| (.+) \|$", section, flags=re.MULTILINE)
        arrows = [(step, then, unescape(events)) for step, then, events in arrows]
        drawn = {(step, event, then) for step, then, events in arrows for event in events.split(" / ")}
        drawn |= {(step, event, then) for step, then, events in rows for event in events.split(", ")}
        drawn = {each for each in drawn if each[0] != "step"}
        assert drawn == {(step, event, then) for (step, event), then in TRANSITIONS[handover].items()}
