"""Which of several intents applies to a new pod."""

import pytest

from rescheduler.api.podmigration import ControllerReference
from rescheduler.steering.intents import Intent, IntentIndex


def intent(cause: str, prefer: str, *avoid: str, pod: str | None = None, **more) -> Intent:
    owner = ControllerReference(
        "apps/v1", "StatefulSet" if pod else "ReplicaSet", "web", more.pop("uid", "rs-1")
    )
    return Intent("shop", owner, pod, prefer, avoid, cause, **more)


def test_a_pod_of_the_workload_gets_the_intent():
    book = IntentIndex([intent("m-1", "new", "old")])
    assert book.intent_for("shop", "rs-1", "web-1") == intent("m-1", "new", "old")


@pytest.mark.parametrize(
    ("namespace", "uid", "name"),
    [
        pytest.param("shop", "rs-2", "db-1", id="another workload"),
        pytest.param("other", "rs-1", "db-1", id="another namespace that claims the same owner"),
        pytest.param("shop", "rs-1", "db-2", id="another name"),
        pytest.param("shop", "rs-1", "", id="no name yet"),
    ],
)
def test_no_other_pod_gets_the_intent(namespace: str, uid: str, name: str):
    book = IntentIndex([intent("m-1", "new", "old", pod="db-1")])
    assert book.intent_for("shop", "rs-1", "db-1") is not None
    assert book.intent_for(namespace, uid, name) is None


def reported(book: IntentIndex, **more) -> Intent:
    found = book.intent_for("shop", "rs-1", "", **more)
    assert found is not None
    return found


def test_of_several_intents_all_exclusions_count_and_one_preference():
    book = IntentIndex([intent("m-2", "d", "b"), intent("m-1", "c", "a")])
    assert reported(book) == intent("m-1", "c", "a", "b")


def test_several_replacements_go_to_several_targets():
    book = IntentIndex([intent("m-1", "c", "a"), intent("m-2", "d", "b")])
    used: dict[str, int] = {}
    preferred = []
    for _ in range(4):
        found = reported(book, used=used)
        used[f"shop/{found.cause}"] = used.get(f"shop/{found.cause}", 0) + 1
        preferred.append(found.prefer)
    assert preferred == ["c", "d", "c", "d"]


def test_one_whose_pod_is_there_comes_last():
    book = IntentIndex([intent("m-1", "c", "a", is_answered=True), intent("m-2", "d", "b")])
    assert reported(book, used={"shop/m-2": 3}).cause == "m-2"


def test_a_pod_gets_the_same_intent_again():
    book = IntentIndex([intent("m-1", "c", "a"), intent("m-2", "d", "b")])
    assert reported(book, used={"shop/m-2": 1}, advised_by="m-2").cause == "m-2"


def test_a_target_that_others_of_the_workload_leave_is_no_target():
    book = IntentIndex([intent("m-1", "b", "a"), intent("m-2", "d", "b")])
    assert reported(book).prefer == ""


def test_the_order_in_which_migrations_became_known_makes_no_difference():
    several = [intent("m-1", "c", "a"), intent("m-2", "d", "b"), intent("m-3", "e", "a")]
    assert reported(IntentIndex(several)) == reported(IntentIndex(reversed(several)))


# -- failed attempts beside migrations


def failed(*nodes: str, pod: str | None = None) -> Intent:
    return intent("", "", pod=pod, tried=nodes)


def test_failed_attempts_add_to_what_a_migration_wants():
    found = reported(IntentIndex([failed("bad", "old"), intent("m-1", "new", "old")]))
    assert (found.cause, found.prefer) == ("m-1", "new")
    assert (found.avoid, found.tried) == (("old",), ("bad",))
    assert found.excluded == ("bad", "old")


def test_a_target_where_the_pod_kept_failing_is_none():
    assert reported(IntentIndex([failed("new"), intent("m-1", "new", "old")])).prefer == ""


def test_failed_attempts_alone_name_no_migration():
    found = reported(IntentIndex([failed("bad"), failed("worse")]), advised_by="")
    assert (found.cause, found.excluded) == ("", ("bad", "worse"))
