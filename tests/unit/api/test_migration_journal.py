"""The journal: bounded, readable in part, and each migration once."""

import json
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.api.daemon_status import SpreadChange
from rescheduler.api.migration_journal import (
    JournalEntry,
    bounded_journal,
    decode_journal,
    encode_journal,
    journal_entry,
    merged_journal,
)
from rescheduler.api.podmigration import Handover, MigrationPhase
from rescheduler.api.well_known_names import BALANCE_ANNOTATION
from rescheduler.daemon.manual_plans import ReturnMove, moves_to_undo
from rescheduler.migrations.transition_table import MigrationStep
from rescheduler.planner.plan import NodeLoadChange, Plan, plan_annotations
from tests.unit.migrations.observations import NOW, migration


def entry(number=0, *, pod="a", successor="b", source="n-1", target="n-2", ok=True, **more):
    values = {
        "uid": f"m-{number}",
        "migration": f"shop/m-{number}",
        "pod": f"shop/{pod}",
        "pod_uid": pod,
        "source": source,
        "target": target,
        "finished_at": datetime(2026, 3, 2, tzinfo=UTC) + timedelta(minutes=number),
        "outcome": MigrationPhase.COMPLETED if ok else MigrationPhase.FAILED,
        "strategy": "LoadBalancing",
        "handover": Handover.ADOPT,
        "successor": successor,
        "successor_uid": successor,
    }
    return JournalEntry(**(values | more))


LATER = datetime(2026, 6, 1, tzinfo=UTC)


def test_only_finished_migrations_are_entries():
    assert journal_entry(migration(MigrationStep.SETTLING)) is None
    finished = migration(MigrationStep.COMPLETED, status={"finished_at": NOW}, finalizers=())
    assert journal_entry(finished).migration == finished.key


@given(st.lists(st.integers(0, 10_000), max_size=50))
def test_what_is_written_is_what_is_read(numbers):
    entries = merged_journal(map(entry, numbers))
    assert decode_journal(encode_journal(entries), LATER) == entries


def line_of(**changes):
    return json.dumps(msgspec.to_builtins(entry(3)) | changes)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("", id="an empty line"),
        pytest.param("null", id="no object"),
        pytest.param("{", id="half a line"),
        pytest.param('{"uid": 1}', id="wrong types"),
        pytest.param("\x00", id="a control character"),
        pytest.param(line_of(reason="r" * 1_000_000), id="a text of a megabyte"),
        pytest.param(line_of(source="n" * 400), id="a name longer than any"),
        pytest.param('{"later":' + "[" * 100_000, id="deep nesting"),
        pytest.param(line_of(finishedAt="2026-06-03T00:00:00Z"), id="in the future"),
        pytest.param(line_of(finishedAt="9999-12-31T23:59:59-01:00"), id="after the last year"),
        pytest.param(line_of(finishedAt="0001-01-01T00:00:00+01:00"), id="before the first year"),
        pytest.param(line_of(finishedAt="2026-03-02T00:00:00"), id="without a time zone"),
        pytest.param(line_of(readySecondsLost=-1), id="a negative duration"),
        pytest.param(line_of(outcome="Forged"), id="an unknown outcome"),
        pytest.param(line_of(spreads=[{"resource": "cpu", "before": 1, "after": 2}] * 100), id="too many"),
    ],
)
def test_a_line_that_is_no_entry_hides_no_other(line):
    data = encode_journal([entry(1), entry(2)])
    damaged = {day: f"{text}\n{line}" for day, text in data.items()}
    assert [each.uid for each in decode_journal(damaged, LATER)] == ["m-2", "m-1"]


@given(st.text(max_size=200))
def test_a_reason_of_any_text_is_one_line(reason):
    """U+2028 and others are line separators for Python, but not for JSON."""
    assert decode_journal(encode_journal([entry(1, reason=reason)]), LATER) == [entry(1, reason=reason)]


def test_a_config_map_full_of_other_lines_is_not_read_to_its_end():
    """What others write to it must not occupy the leader: the newest lines count."""
    ours = encode_journal([entry(1)])
    found = decode_journal({"2020-01-01": "{\n" * 300_000, **ours}, LATER)
    assert found == [entry(1)]
    assert decode_journal({"a": "{\n" * 300_000, **ours}, LATER) == []


@pytest.mark.parametrize("annotation", ["", "cpu 69 17", "[" * 100_000, '[{"resource":"cpu"}]'])
def test_an_annotation_that_was_written_by_hand_tells_no_spread(annotation):
    finished = migration(MigrationStep.COMPLETED, status={"finished_at": NOW}, finalizers=())
    assert journal_entry(msgspec.structs.replace(finished, balance=annotation)).spreads == ()


@pytest.mark.parametrize("forged", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_an_impossible_time_of_the_end_is_no_entry(forged):
    """No day could be computed for it: the leader would end."""
    at = datetime.fromisoformat(forged)
    finished = migration(MigrationStep.COMPLETED, status={"finished_at": at}, finalizers=())
    assert journal_entry(finished) is None


def test_what_a_plan_says_of_itself_is_what_the_history_tells():
    loads = (NodeLoadChange("a", {"cpu": 80.0}, {"cpu": 50.0}), NodeLoadChange("b", {"cpu": 20.0}, {}))
    plan = Plan(taken_at_s=1.0, nodes=loads)
    finished = migration(MigrationStep.COMPLETED, status={"finished_at": NOW}, finalizers=())
    noted = msgspec.structs.replace(finished, balance=plan_annotations(plan)[BALANCE_ANNOTATION])
    assert journal_entry(noted).spreads == (SpreadChange("cpu", 60.0, 30.0),)


def test_the_oldest_entries_make_room_for_new_ones():
    kept = bounded_journal(entry(number) for number in range(5_000))
    assert len(kept) == 2_000
    assert kept[0].uid == "m-4999"
    assert sum(map(len, encode_journal(kept).values())) < 1_000_000


def test_one_namespace_can_not_erase_the_history_of_others():
    """A tenant's moves are all newer, and more than the journal holds."""
    others = [entry(number, migration=f"bank/m-{number}") for number in range(100)]
    flood = [entry(number) for number in range(1_000, 6_000)]
    kept = bounded_journal([*others, *flood])
    assert len(kept) == 2_000
    assert set(others) <= set(kept)
    assert kept == merged_journal(kept), "newest first"


def test_annotations_of_one_migration_can_not_fill_the_journal():
    text = msgspec.json.encode([SpreadChange("x" * 250_000, 1.0, 2.0)]).decode()
    finished = migration(MigrationStep.COMPLETED, status={"finished_at": NOW}, finalizers=())
    filled = journal_entry(msgspec.structs.replace(finished, balance=text, plan="p" * 250_000))
    assert len(msgspec.json.encode(filled)) < 1_000


def test_long_texts_still_fit_into_a_config_map():
    kept = bounded_journal(
        entry(number, reason="r" * 200, source="n" * 253, target="n" * 253) for number in range(2_000)
    )
    assert sum(map(len, encode_journal(kept).values())) < 800_000


def back(history, *numbers):
    chosen = {f"m-{number}" for number in numbers}
    return moves_to_undo(history, lambda each: each.uid in chosen)


def test_a_chain_of_moves_goes_back_to_its_start():
    chain = [entry(1), entry(2, pod="b", successor="c", source="n-2", target="n-3")]
    assert back(chain, 1, 2) == [ReturnMove("shop/c", "c", "n-1", "shop/m-2")]
    assert back(chain, 2) == [ReturnMove("shop/c", "c", "n-2", "shop/m-2")]


def test_a_later_move_that_stays_tells_which_pod_is_there_now():
    chain = [entry(1), entry(2, pod="b", successor="c", source="n-2", target="n-3")]
    assert back(chain, 1) == [ReturnMove("shop/c", "c", "n-1", "shop/m-2")]


def test_a_failed_move_has_nothing_to_undo():
    assert back([entry(1, ok=False)], 1) == []


def test_a_successor_that_is_not_known_is_reported():
    assert back([entry(1, successor="")], 1) == [ReturnMove("", "", "n-1", "shop/m-1")]


def test_newer_versions_may_add_fields():
    content = msgspec.to_builtins(entry(1)) | {"later": 1}
    assert decode_journal({"2026-03-02": msgspec.json.encode(content).decode()}, LATER) == [entry(1)]
