"""The invariant that a ReplicaSet has at most one extra pod per running migration can be violated."""

from datetime import timedelta

from kubesim.running_cluster import EPOCH
from tests.campaign.extra_pods import SETTLES_WITHIN, extra_pods
from tests.e2e.chaos.api_observer import ApiObserver
from tests.e2e.chaos.object_versions import WorkloadState
from tests.unit.chaos.test_verdicts import migration, pod


class Observed:
    """What an observer has seen, one change per second."""

    def __init__(self):
        self.seconds = 0
        self.seen = ApiObserver(None, lambda: EPOCH + timedelta(seconds=self.seconds))

    def note(self, history, state):
        self.seconds += 1
        history.note(state.uid, self.seconds, state)

    def pods(self, *names, owners=(("ReplicaSet", "uid-web"),)):
        for name in names:
            self.note(self.seen.pods, pod(name, owners=owners))

    def replicas(self, count):
        state = WorkloadState("shop/web-1", "uid-web", "ReplicaSet", count, False, ())
        self.note(self.seen.workloads, state)

    def migration(self, **changed):
        self.note(self.seen.migrations, migration(**changed))

    def faults(self):
        self.seconds += SETTLES_WITHIN.total_seconds()
        self.pods("last")
        return list(extra_pods(self.seen))


def moving():
    observed = Observed()
    observed.replicas(2)
    observed.pods("source", "sibling")
    observed.migration(phase="InProgress")
    observed.pods("copy", owners=(("PodMigration", "uid-move"),))
    return observed


def test_a_copy_beside_its_source_is_the_one_extra_pod():
    observed = moving()
    observed.replicas(3)
    assert observed.faults() == []


def test_a_second_extra_pod_is_one_too_many():
    (fault,) = moving().faults()
    assert "shop/web-1 has 4 pods, 2 replicas and 1 running migrations" in fault


def test_when_the_migration_is_finished_no_extra_pod_is_left():
    observed = moving()
    observed.migration(phase="Completed")
    observed.replicas(3)
    (fault,) = observed.faults()
    assert "has 4 pods, 3 replicas and 0 running migrations" in fault
