"""The labels that a migration sets on pods, and the names that it gives them."""

import re

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.api.podmigration import Handover, MigrationSpec, PodReference
from rescheduler.migrations import labels_and_names
from rescheduler.migrations.labels_and_names import budget_name, copy_name, copy_names, migration_name
from rescheduler.migrations.transition_table import MigrationStep
from tests.unit.migrations.observations import NOW, migration, pod

VALID = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")


@given(st.text())
def test_every_label_value_is_valid(text):
    assert VALID.fullmatch(labels_and_names.label_value(text))


@given(st.text(), st.text())
def test_different_texts_have_different_values(one, other):
    assert (labels_and_names.label_value(one) == labels_and_names.label_value(other)) == (one == other)


def test_a_valid_text_is_its_own_value():
    assert labels_and_names.label_value("node-1.example") == "node-1.example"


def test_the_copy_of_a_pod_is_called_like_its_siblings_and_always_the_same():
    moving = migration(MigrationStep.CREATING)
    name = copy_name(moving)
    assert re.fullmatch(r"web-1-[a-z0-9]{5}", name)
    assert copy_name(moving) == name
    assert copy_names(moving) == (name,)


def test_a_bare_pod_keeps_its_name_in_every_copy():
    names = ["cache"]
    for _ in range(3):
        spec = MigrationSpec(PodReference(names[-1], "source-uid"), "old")
        names.append(copy_name(migration(MigrationStep.CREATING, Handover.COPY, owner=None, spec=spec)))
    assert [re.sub(r"[a-z0-9]{5}$", "", name) for name in names[1:]] == ["rescheduled-cache-"] * 3


def test_the_copies_of_all_attempts_are_known_by_name_the_latest_first():
    moving = migration(MigrationStep.CREATING)
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
    first, again = (
        pod(),
        pod(
            annotations={
                labels_and_names.ORIGINAL_POD_ANNOTATION: "older",
                labels_and_names.ORIGINAL_POD_NAME_ANNOTATION: "web-0",
            }
        ),
    )
    assert (
        labels_and_names.source_annotations(first, NOW)[labels_and_names.ORIGINAL_POD_ANNOTATION] == first.uid
    )
    assert labels_and_names.ORIGINAL_POD_ANNOTATION not in labels_and_names.source_annotations(again, NOW)
    assert labels_and_names.metadata_to_remove(first)[1] == labels_and_names.ANNOTATIONS
    assert labels_and_names.metadata_to_remove(again)[1] == (labels_and_names.TIME_ANNOTATION,)


def test_a_completed_mark_is_no_lock():
    done = pod(
        labels=labels_and_names.migration_labels(migration(), labels_and_names.MigrationLabelStatus.COMPLETED)
    )
    assert labels_and_names.lock_of(done) == ""
    assert labels_and_names.lock_of(pod(marked=True)) == "move"
