"""Which pods are refused while a copy is handed over, and for how long."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rescheduler.api.well_known_names import GUARD_WEBHOOK, PROBE_LABEL, STEERING_WEBHOOK
from rescheduler.steering.webhook.surplus_guard import SurplusGuard
from rescheduler.steering.webhook.webhook_configurations import REPLICA_SET_CONTROLLERS
from tests.unit.steering.reviews import OWNER, pod_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
BY_ACCOUNT, BY_MANAGER = REPLICA_SET_CONTROLLERS


class Records:
    """An informer of PodMigrations, as far as the guard needs one."""

    is_synced = True

    def subscribe(self, handler: Any) -> None:
        self.handler = handler


class Guarded:
    def __init__(self) -> None:
        self.records = Records()
        self.clock_s = 100.0
        self.ahead = timedelta()
        self.guard = SurplusGuard(
            self.records,  # type: ignore[arg-type]
            lambda: NOW + timedelta(seconds=self.clock_s - 100) + self.ahead,
            lambda: self.clock_s,
        )
        self.known: Any = None

    def observe(self, item: Any) -> None:
        self.records.handler(self.known, item)
        self.known = item

    def answer(self, *, user: str = BY_ACCOUNT, is_ready: bool = True, **pod: Any) -> dict[str, Any]:
        namespace = pod.pop("namespace", "shop")
        request = {
            "uid": "review-1",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "operation": "CREATE",
            "namespace": namespace,
            "userInfo": {"username": user},
            "object": pod_of(**pod),
        }
        body = json.dumps({"request": request}).encode()
        return dict(json.loads(self.guard.answer(body, is_ready=is_ready))["response"])

    def refuses(self, **asked: Any) -> bool:
        return not self.answer(**asked)["allowed"]


@pytest.fixture
def guarded() -> Guarded:
    return Guarded()


def migration(requested_at: datetime | None = NOW, **status: Any) -> dict[str, Any]:
    owner = {key: OWNER[key] for key in ("apiVersion", "kind", "name", "uid")}
    return {
        "metadata": {"namespace": "shop", "name": "move-1", "creationTimestamp": "2026-03-01T11:59:00Z"},
        "spec": {"pod": {"name": "web-1", "uid": "pod-1"}, "sourceNode": "old"},
        "status": {
            "phase": "InProgress",
            "step": "Evicting",
            "handover": "Adopt",
            "owner": owner,
            "targetPod": {"name": "web-copy", "uid": "pod-2"},
            **({"evictionRequestedAt": requested_at.isoformat()} if requested_at else {}),
            **status,
        },
    }


def test_a_pod_that_the_replica_set_does_not_need_is_refused_with_a_clear_message(guarded: Guarded):
    guarded.observe(migration())
    answer = guarded.answer()
    assert not answer["allowed"]
    assert answer["status"]["code"] == 429
    assert "retryAfterSeconds" not in answer["status"].get("details", {}), "a client would wait for it"
    message = answer["status"]["message"]
    assert "about to adopt web-copy in place of web-1" in message
    assert "PodMigration shop/move-1" in message
    assert "No action is needed" in message


PASSES = {
    "by another user": {"user": "system:admin"},
    "of another ReplicaSet": {"ownerReferences": [{**OWNER, "uid": "rs-2"}]},
    "of no controller": {"ownerReferences": None},
    "in another namespace": {"namespace": "elsewhere"},
    "while the cache is stale": {"is_ready": False},
}


@pytest.mark.parametrize("asked", PASSES.values(), ids=PASSES)
def test_a_pod_passes(asked: dict[str, Any], guarded: Guarded):
    guarded.observe(migration())
    assert not guarded.refuses(**asked)


def test_a_controller_manager_with_one_account_for_all_is_refused_too(guarded: Guarded):
    guarded.observe(migration())
    assert guarded.refuses(user=BY_MANAGER)


UNGUARDED = {
    "before the eviction": {"step": "Settling"},
    "after the adoption": {"step": "Releasing"},
    "when it is over": {"phase": "Completed", "step": "Completed"},
    "with another handover": {"handover": "Evict"},
    "without an owner": {"owner": None},
    "without a request on record": {"requested_at": None},
}


@pytest.mark.parametrize("status", UNGUARDED.values(), ids=UNGUARDED)
def test_a_migration_refuses_nothing(status: dict[str, Any], guarded: Guarded):
    given = {key: value for key, value in status.items() if value or key == "requested_at"}
    guarded.observe(migration(**given))
    if status.get("owner", "") is None:
        item = migration()
        del item["status"]["owner"]
        guarded.observe(item)
    assert not guarded.refuses()


def test_it_ends_with_the_record(guarded: Guarded):
    guarded.observe(migration())
    guarded.observe(migration(phase="Completed", step="Completed"))
    assert not guarded.refuses()
    guarded.observe(migration())
    guarded.observe(None)
    assert not guarded.refuses()


def test_no_replica_set_is_held_up_for_more_than_ten_seconds(guarded: Guarded):
    guarded.observe(migration())
    guarded.clock_s += 9.9
    guarded.observe(migration(message="still waits"))
    assert guarded.refuses()
    guarded.clock_s += 0.1
    guarded.observe(migration(message="still waits for it"))
    assert not guarded.refuses()
    guarded.clock_s += 20
    guarded.observe(migration(NOW + timedelta(seconds=30)))
    assert guarded.refuses(), "another request"


def test_refused_evictions_delay_a_replica_set_little(guarded: Guarded):
    """Each refused eviction was recorded again and opened another ten seconds, so siblings were not
    replaced."""
    refused_s = 0
    for second in range(300):
        guarded.clock_s = 100.0 + second
        if second % 4 == 0:
            guarded.observe(migration(NOW + timedelta(seconds=second)))
        refused_s += guarded.refuses()
    assert refused_s <= 100


@pytest.mark.parametrize("ahead_s", [-3600, -30, 30])
def test_clocks_that_differ_change_nothing_about_what_is_observed_live(ahead_s: int, guarded: Guarded):
    guarded.ahead = timedelta(seconds=ahead_s)
    guarded.observe(migration())
    assert guarded.refuses()
    guarded.clock_s += 10
    assert not guarded.refuses()


def test_replicas_that_start_one_after_the_other_add_no_time(guarded: Guarded):
    guarded.records.is_synced = False
    guarded.clock_s += 9
    guarded.observe(migration())
    assert guarded.refuses()
    guarded.clock_s += 1
    assert not guarded.refuses()


def test_a_record_of_yesterday_refuses_nothing(guarded: Guarded):
    guarded.observe(migration(NOW - timedelta(days=1)))
    assert not guarded.refuses()


def test_a_probe_is_denied_to_show_that_the_webhook_answers(guarded: Guarded):
    answer = guarded.answer(user="anybody", labels={PROBE_LABEL: GUARD_WEBHOOK})
    assert answer["status"]["reason"] == "WebhookProbeAnswered"
    assert not guarded.refuses(labels={PROBE_LABEL: STEERING_WEBHOOK})
    assert not guarded.refuses(labels={PROBE_LABEL: GUARD_WEBHOOK}, is_ready=False)


@pytest.mark.parametrize("body", [b"", b"nonsense", b"{}", b'{"request": {"uid": "a"}}'])
def test_what_is_not_understood_passes(body: bytes, guarded: Guarded):
    assert json.loads(guarded.guard.answer(body, is_ready=True))["response"]["allowed"]
