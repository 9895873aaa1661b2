"""What a migration writes onto pods, and what it calls them."""

import re

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.migrations import marks
from rescheduler.migrations.naming import budget_name, copy_name, copy_names, migration_name
from rescheduler.migrations.steps import Step
from rescheduler.model.migrations import MigrationSpec, PodReference
from rescheduler.model.plan import Handover
from tests.unit.migrations.scenes import NOW, migration, pod

VALID = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")


@given(st.text())
def test_every_label_value_is_valid(text):
    assert VALID.fullmatch(marks.label_value(text))


@given(st.text(), st.text())
def test_different_texts_have_different_values(one, other):
    assert (marks.label_value(one) == marks.label_value(other)) == (one == other)


def test_a_valid_text_is_its_own_value():
    assert marks.label_value("node-1.example") == "node-1.example"


def test_the_copy_of_a_pod_is_called_like_its_siblings_and_always_the_same():
    moving = migration(Step.CREATING)
    name = copy_name(moving)
    assert re.fullmatch(r"web-1-[a-z0-9]{5}", name)
    assert copy_name(moving) == name
    assert copy_names(moving) == (name,)


def test_a_bare_pod_keeps_its_name_in_every_copy():
    names = ["cache"]
    for _ in range(3):
        spec = MigrationSpec(PodReference(names[-1], "source-uid"), "old")
        names.append(copy_name(migration(Step.CREATING, Handover.COPY, owner=None, spec=spec)))
    assert [re.sub(r"[a-z0-9]{5}$", "", name) for name in names[1:]] == ["rescheduled-cache-"] * 3


def test_the_copies_of_all_attempts_are_known_by_name_the_latest_first():
    moving = migration(Step.CREATING)
    first = copy_name(moving)
    again = msgspec.structs.replace(moving, status=msgspec.structs.replace(moving.status, attempts=2))
    assert copy_names(again) == (copy_name(again), first)
    many = msgspec.structs.replace(moving, status=msgspec.structs.replace(moving.status, attempts=10**9))
    assert len(copy_names(many)) == 20


@given(st.from_regex(r"[a-z]([a-z0-9.-]{0,300}[a-z0-9])?", fullmatch=True))
def test_names_are_never_too_long(name):
    assert len(migration_name(name, "uid", 1.0)) <= 63
    assert len(budget_name(name)) <= 253


def test_a_pod_that_was_moved_before_keeps_what_it_says_of_its_origin():
    first, again = pod(), pod(marks={marks.ORIGINAL_POD: "older", marks.ORIGINAL_POD_NAME: "web-0"})
    assert marks.source_annotations(first, NOW)[marks.ORIGINAL_POD] == first.uid
    assert marks.ORIGINAL_POD not in marks.source_annotations(again, NOW)
    assert marks.superfluous(first)[1] == marks.ANNOTATIONS
    assert marks.superfluous(again)[1] == (marks.TIME,)


def test_a_completed_mark_is_no_lock():
    done = pod(labels=marks.labels(migration(), marks.MarkStatus.COMPLETED))
    assert marks.lock_of(done) == ""
    assert marks.lock_of(pod(marked=True)) == "move"
