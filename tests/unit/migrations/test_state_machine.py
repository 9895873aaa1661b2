"""The decision at each step follows from the observation, and the promises hold for any observation."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.api.podmigration import Handover, MigrationPhase
from rescheduler.api.well_known_names import FINALIZER
from rescheduler.cluster.budget_record import BudgetRecord
from rescheduler.cluster.pod_constraints import LabelSelector
from rescheduler.migrations import effects
from rescheduler.migrations.labels_and_names import MIGRATION_ID_LABEL
from rescheduler.migrations.observation import (
    Perform,
    RevalidationOutcome,
    RevalidationResult,
    Transition,
    Wait,
)
from rescheduler.migrations.state_machine import advance, decide, is_checkpoint, step_of
from rescheduler.migrations.transition_table import TRANSITIONS, Trigger
from rescheduler.migrations.transition_table import MigrationStep as Step
from tests.unit.migrations.observations import (
    CONTROLLER,
    FORWARD_ONLY,
    NOW,
    OWNER,
    POLICY,
    US,
    copy,
    migration,
    node,
    observation,
    pod,
    replica_set,
)

BUDGET = BudgetRecord(
    "shop/budget", "shop", "b", selector=LabelSelector(match_labels=(("app", "web"),)), disruptions_allowed=1
)

NAMED = msgspec.structs.replace(CONTROLLER, controller=False)
"""The second owner that a copy names from the beginning."""
SPENT = msgspec.structs.replace(BUDGET, disruptions_allowed=0)
DEPLOYMENT = replica_set(kind="Deployment")


def steps_of(handover):
    return sorted({step for step, _ in TRANSITIONS[handover]} | {Step.COMPLETED, Step.FAILED})


@st.composite
def drawn_observations(draw):
    """Anything that may be seen at any step, sensible or not."""
    handover = draw(st.sampled_from([Handover.ADOPT, Handover.COPY, Handover.EVICT]))
    step = draw(st.sampled_from(steps_of(handover)))
    owner = None if handover is Handover.COPY else OWNER
    moving = migration(
        step,
        handover,
        owner=owner,
        deleted=draw(st.none() | st.just(NOW)),
        finalizers=draw(st.sampled_from([(), (FINALIZER,)])),
        status={"finished_at": NOW} if step in {Step.COMPLETED, Step.FAILED} else {},
    )
    source = draw(
        st.none()
        | st.builds(
            pod,
            marked=st.booleans(),
            ready=st.booleans(),
            node=st.sampled_from(["old", "new", ""]),
            deleted_s=st.none() | st.just(1),
            owners=st.just(() if owner is None else (CONTROLLER,)),
        )
    )
    target = draw(
        st.none()
        | st.builds(
            copy,
            node=st.sampled_from(["", "new", "other"]),
            ready=st.booleans(),
            gated=st.booleans(),
            deleted_s=st.none() | st.just(1),
        )
        | st.builds(copy, owners=st.just((CONTROLLER,)))
    )
    return observation(
        moving,
        now=NOW + timedelta(seconds=draw(st.integers(0, 1000))),
        source=source,
        target=target,
        owner=draw(st.none() | st.builds(replica_set, replicas=st.integers(0, 3))),
        budgets=draw(st.sampled_from([(), (BUDGET,), (SPENT,), (BUDGET, BUDGET)])),
        nodes=draw(st.sampled_from([{}, {"new": node("new")}, {"new": node("new", ready=False)}])),
        revalidation=RevalidationResult(draw(st.sampled_from(RevalidationOutcome)), handover, "new", owner),
        has_turn=draw(st.booleans()),
        is_superseded=draw(st.booleans()),
        workload_is_gone=draw(st.booleans()),
    )  # fmt: skip


@given(drawn_observations())
def test_whatever_is_seen_the_table_knows_what_follows(seen):
    decision = decide(seen)
    if isinstance(decision, Transition):
        after = advance(seen, decision)
        assert (
            step_of(after)
            is TRANSITIONS[seen.migration.status.handover or Handover.AUTO][
                step_of(seen.migration), decision.trigger
            ]
        )


@given(drawn_observations())
def test_a_copy_is_deleted_only_on_the_way_back(seen):
    decision = decide(seen)
    if isinstance(decision, Perform) and isinstance(decision.effect, effects.DeleteCopy):
        assert step_of(seen.migration) in {Step.ROLLING_BACK, Step.FAILED}


@given(drawn_observations())
def test_the_source_is_evicted_only_while_it_is_ours_and_its_copy_serves(seen):
    decision = decide(seen)
    if isinstance(decision, Perform) and isinstance(decision.effect, effects.EvictSource):
        assert step_of(seen.migration) is Step.EVICTING
        assert seen.source_is_ours
        assert not seen.migration.is_cancelled
        if seen.migration.status.handover is not Handover.EVICT:
            assert seen.target.is_ready
            assert not seen.target.is_terminating


@given(drawn_observations())
def test_the_eviction_is_cancelled_only_with_the_marks_gone_and_the_source_standing(seen):
    decision = decide(seen)
    if step_of(seen.migration) is not Step.EVICTING or not isinstance(decision, Transition):
        return
    if step_of(advance(seen, decision)) not in FORWARD_ONLY:
        assert seen.source_is_active
        assert not seen.source_is_ours


@given(drawn_observations())
def test_what_must_be_on_record_is(seen):
    decision = decide(seen)
    if isinstance(decision, Transition):
        after = advance(seen, decision)
        if step_of(after) in {
            Step.MARKING,
            Step.EVICTING,
            Step.ROLLING_BACK,
            Step.COMPLETED,
            Step.FAILED,
        }:
            assert is_checkpoint(seen.migration, after)


@given(drawn_observations())
def test_nothing_waits_for_a_time_that_has_passed(seen):
    decision = decide(seen)
    if isinstance(decision, Wait) and decision.until is not None:
        assert decision.until > seen.now


# -- single steps


@pytest.mark.parametrize(
    ("step", "more", "effect"),
    [
        pytest.param(Step.MARKING, {"source": pod()}, effects.LabelSource, id="a free source is locked"),
        pytest.param(Step.CREATING, {}, effects.CreateCopy, id="a locked source gets a copy"),
        pytest.param(
            Step.PLACING, {"target": copy(node="", gated=True)}, effects.NominateNode, id="first a nomination"
        ),
        pytest.param(
            Step.PLACING,
            {"target": copy(node="", gated=True, nominated_node="new")},
            effects.RemoveSchedulingGate,
            id="then the gate is opened",
        ),
        pytest.param(Step.EVICTING, {"target": copy()}, effects.EvictSource, id="the source goes"),
        pytest.param(
            Step.EVICTING,
            {"target": copy(), "now": NOW + timedelta(hours=1)},
            effects.UnlabelSource,
            id="cancelling at the eviction begins with the labels",
        ),
        pytest.param(
            Step.ADOPTING,
            {"source": None, "target": copy(owners=(US, NAMED))},
            effects.ReleaseTarget,
            id="the copy is offered",
        ),
        pytest.param(
            Step.ADOPTING,
            {"source": None, "target": copy()},
            effects.OfferCopyForAdoption,
            id="a copy that does not name its ReplicaSet keeps us as its owner",
        ),
        pytest.param(
            Step.RELEASING,
            {"source": None, "target": copy(owners=(CONTROLLER,))},
            effects.ReleaseTarget,
            id="what is adopted is released",
        ),
        pytest.param(Step.ROLLING_BACK, {"target": copy()}, effects.DeleteCopy, id="back: first the copy"),
        pytest.param(Step.ROLLING_BACK, {}, effects.UnlabelSource, id="back: last the lock"),
    ],
)  # fmt: skip
def test_what_is_done(step, more, effect):
    decision = decide(observation(migration(step), **more))
    assert isinstance(decision, Perform)
    assert type(decision.effect) is effect


LOCKED_POD = pod(labels={MIGRATION_ID_LABEL: "other"})


@pytest.mark.parametrize(
    ("step", "more", "event"),
    [
        (Step.MARKING, {"source": LOCKED_POD, "locked_by": "other"}, Trigger.LOCKED),
        (Step.PLACING, {"target": copy(node="other")}, Trigger.COPY_MISPLACED),
        (Step.STARTING, {"target": copy(ready=False), "nodes": {}}, Trigger.TARGET_LOST),
        (Step.STARTING, {"target": None}, Trigger.COPY_GONE),
        (Step.SETTLING, {"target": copy(ready=False)}, Trigger.COPY_UNREADY),
        (Step.SETTLING, {"target": copy(), "is_superseded": True, "deployment": DEPLOYMENT},
         Trigger.WORKLOAD_CHANGED),
        (Step.SETTLING, {"target": copy(), "source": None}, Trigger.SOURCE_LOST),
        (Step.STARTING, {"target": copy(ready=False), "source": None}, Trigger.SOURCE_GONE),
        (Step.EVICTING, {"target": copy(), "source": None}, Trigger.SOURCE_LEFT),
        (Step.EVICTING, {"target": None, "source": pod()}, Trigger.COPY_GONE),
        (Step.ADOPTING, {"target": None, "source": None}, Trigger.COPY_GONE),
        (Step.ADOPTING, {"target": copy(), "source": None, "owner": None, "pods_are_orphaned": True},
         Trigger.ORPHANED),
    ],
)  # fmt: skip
def test_what_happened(step, more, event):
    decision = decide(observation(migration(step), **more))
    assert isinstance(decision, Transition)
    assert decision.trigger is event


def test_no_source_is_evicted_beside_a_copy_that_is_no_longer_ready():
    seen = observation(migration(Step.EVICTING), target=copy(ready=False))
    assert isinstance(decide(seen), Wait)
    late = replace(seen, now=NOW + timedelta(hours=1))
    assert isinstance(decide(late).effect, effects.UnlabelSource), "cancelled in the end"


def test_a_serving_copy_is_removed_within_its_budget():
    """It is deleted without the budget only if that takes too long."""

    def way_back(now, **more):
        return decide(observation(migration(Step.ROLLING_BACK), target=copy(**more), now=now)).effect

    assert way_back(NOW + timedelta(seconds=1)).within_budget
    assert not way_back(NOW + timedelta(seconds=1), ready=False).within_budget
    assert not way_back(NOW + POLICY.migration_timeout).within_budget


def test_late_leftovers_of_a_failed_migration_are_removed():
    """Requests of a process that ended long ago: a copy, or the lock. What was moved is never removed."""

    def after(step, **more):
        over = migration(step, status={"finished_at": NOW}, finalizers=())
        return decide(observation(over, **more))

    assert isinstance(after(Step.FAILED, target=copy(ready=False)).effect, effects.DeleteCopy)
    assert isinstance(after(Step.FAILED).effect, effects.UnlabelSource)
    assert isinstance(after(Step.FAILED, source=pod()), Wait)
    assert isinstance(after(Step.COMPLETED, source=None, target=copy()), Wait)


def test_a_migration_is_settled_when_available_and_noticed():
    seen = observation(migration(Step.SETTLING), target=copy(), owner=replica_set(min_ready_s=60))
    assert decide(seen).until == NOW + timedelta(seconds=61)
    early = replace(seen, owner=replica_set(), now=NOW + timedelta(seconds=10))
    assert decide(early).until == NOW + timedelta(seconds=11), "ready at 0.9 s is reported as ready at 0"
    assert decide(replace(early, now=NOW + timedelta(seconds=11))).trigger is Trigger.SETTLED
    at_once = replace(early, policy=replace(POLICY, settle_time=timedelta()), now=NOW)
    assert decide(at_once).trigger is Trigger.SETTLED


def test_members_of_a_group_are_handed_over_together():
    alone = migration(Step.SETTLING)
    grouped = with_group(alone)
    other = with_group(migration(Step.STARTING, key="shop/other"))
    seen = observation(grouped, target=copy(), group=(grouped, other))
    assert isinstance(decide(seen), Wait)
    settled = with_group(migration(Step.SETTLING, key="shop/other"))
    assert decide(replace(seen, group=(grouped, settled))).trigger is Trigger.SETTLED
    failed = with_group(migration(Step.FAILED, key="shop/other"))
    assert decide(replace(seen, group=(grouped, failed))).trigger is Trigger.PARTNER_FAILED


def with_group(moving):
    spec = msgspec.structs.replace(moving.spec, group="ring", group_size=2)
    return msgspec.structs.replace(moving, spec=spec)


def test_a_retry_waits_twice_as_long_each_time_and_a_final_failure_never_retries():
    def after(attempts, **more):
        undone = migration(Step.ROLLING_BACK, status=more)
        status = msgspec.structs.replace(undone.status, attempts=attempts)
        seen = observation(msgspec.structs.replace(undone, status=status), source=pod())
        return advance(seen, decide(seen)).status, seen.now

    first, now = after(1)
    second, _ = after(2)
    assert first.phase is second.phase is MigrationPhase.PENDING
    assert (second.retry_at - now) / (first.retry_at - now) == pytest.approx(2)
    assert after(4)[0].phase is MigrationPhase.FAILED, "three retries"
    assert after(1, failure_is_final=True)[0].phase is MigrationPhase.FAILED
