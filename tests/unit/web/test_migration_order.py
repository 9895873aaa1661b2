"""The order of migrations in the history, and of the entries in the timeline of one."""

from datetime import UTC, datetime, timedelta

from rescheduler.api.podmigration import decode_migration
from rescheduler.config.policy import Policy
from rescheduler.web.migration_page import migration_detail, migration_list
from rescheduler.web.web_openapi import MigrationQuery
from rescheduler.web.web_viewer import EVERYTHING_VISIBLE, HIDDEN_NAME, Visibility

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


def after(seconds):
    return (NOON + timedelta(seconds=seconds)).isoformat()


def migration(name, created, finished=None, **status):
    phase = (
        {"phase": "InProgress"} if finished is None else {"phase": "Completed", "finishedAt": after(finished)}
    )
    return decode_migration(
        {
            "metadata": {"namespace": "shop", "name": name, "creationTimestamp": after(created)},
            "spec": {
                "pod": {"name": "web-1", "uid": "u"},
                "sourceNode": "node-1",
                "reason": "makes room for secret/vault",
            },
            "status": {"startedAt": after(created), **phase, **status},
        }
    )


def test_what_finished_last_is_first_in_the_history():
    found = [migration("early-and-slow", 0, 90), migration("late-and-quick", 10, 20), migration("runs", 5)]
    listed = migration_list(found, MigrationQuery(), Policy(), EVERYTHING_VISIBLE)
    assert [each.key for each in listed.migrations] == [
        "shop/runs",
        "shop/early-and-slow",
        "shop/late-and-quick",
    ]
    first = MigrationQuery(before="shop/early-and-slow")
    assert [each.key for each in migration_list(found, first, Policy(), EVERYTHING_VISIBLE).migrations] == [
        "shop/late-and-quick"
    ]


def test_what_follows_within_a_second_is_in_its_usual_order():
    """The deletion of a pod and Events have times without fractions."""
    move = migration("m", 0, 14, evictionRequestedAt=after(13.4), handedOverAt=after(13.0))
    events = [
        {"firstTimestamp": after(13), "reason": "MigrationHandedOver", "message": "m: the source is evicted"}
    ]
    detail = migration_detail(move, events, Policy(), EVERYTHING_VISIBLE)
    assert [each.reason for each in detail.timeline] == [
        "Created",
        "Started",
        "EvictionRequested",
        "HandedOver",
        "MigrationHandedOver",
        "Completed",
    ]


def test_a_migration_names_no_hidden_object():
    """Its reason is of any user who may create it, and its Events repeat it."""
    events = [
        {"firstTimestamp": after(1), "reason": "MigrationStarted", "message": "m makes room for secret/vault"}
    ]
    seen = Visibility(nodes=True, namespaces=frozenset({"shop"}))
    detail = migration_detail(migration("m", 0), events, Policy(), seen)
    assert detail.migration.reason == f"makes room for {HIDDEN_NAME}"
    assert not any("vault" in each.message for each in detail.timeline)
