"""From the first failure to the end: plan, record, move, fail again.

What the controller does between two checks is played here by hand, so that the story takes no time: it puts
the try on record before it moves anything, and a copy that fails after.
"""

import pytest

from rescheduler.api.well_known_names import FAILED_ATTEMPTS_ANNOTATION, ORIGINAL_POD_ANNOTATION
from rescheduler.config.policy import FailedPodsPolicy as Terms
from rescheduler.config.policy import Policy
from rescheduler.planner.plan_builder import build_plan
from rescheduler.planner.reasons import Reason
from rescheduler.recovery.attempt_ledger import AttemptLedger, FailedAttempt
from rescheduler.recovery.failed_pods_strategy import FailedPods
from rescheduler.recovery.failing_pods import examine_pod
from rescheduler.recovery.replica_lineage import revision_of
from tests.building import NOW, cluster
from tests.failing_pods import ago, container, crashing, status_of

HASH = "pod-template-hash"


class Story:
    """A Deployment with two replicas, one of which fails wherever it is; the nodes are n1, n2, …"""

    def __init__(self, *, nodes: int, retries: int) -> None:
        self.nodes = [f"n{number}" for number in range(1, nodes + 1)]
        self.retries = retries
        self.ledger = AttemptLedger()
        self.moves: list[tuple[str, str]] = []
        self.now = NOW
        self.pod = {"name": "web-0", "on": "n1", "marks": {}, "status": crashing()}
        self.revision = "1"
        self._born = 0

    def cluster(self):
        marks = {"scheduling-retries": str(self.retries)}
        if self.ledger.lineages:
            marks[FAILED_ATTEMPTS_ANNOTATION] = self.ledger.written("uid-of-deployment-shop-web")
        made = cluster().nodes(*self.nodes).deployment("shop/web", replicas=0, annotations=marks)
        parts = {"owner": "ReplicaSet/web-1", "labels": {"app": "web", HASH: self.revision}}
        made.pod("shop/web-well", on="n2", **parts)
        made.pod(
            f"shop/{self.pod['name']}",
            on=self.pod["on"],
            annotations=self.pod["marks"],
            created=ago(60),
            **parts,
            **self.pod["status"],
        )
        return made

    def check(self, *, copy_fails: bool) -> str:
        """One check and what follows from it; the reason if nothing does."""
        self.now += 60
        snapshot = self.cluster().snapshot(now=self.now)
        found = build_plan(snapshot, Policy(), [FailedPods()])
        examination = examine_pod(snapshot, Terms(), snapshot.pods.row[f"shop/{self.pod['name']}"])
        assert examination is not None
        (case,) = examination.failing
        self.ledger = case.recorded_in(examination.ledger, self.now)
        if not found.moves:
            return found.refused[0].reason
        (move,) = found.moves
        if move.target in self.ledger.lineage(case.name).nodes:
            self.ledger = self.ledger.forgiving(case.name)
        self.moves.append((move.source, move.target))
        self._born += 1
        copy = f"web-{self._born}"
        if copy_fails:
            failure = FailedAttempt(int(self.now) + 30, move.target, f"uid-of-pod-shop-{copy}")
            self.ledger = self.ledger.with_failure(case.name, failure, self.retries, revision_of(case.pod))
        else:
            marks = {ORIGINAL_POD_ANNOTATION: case.pod.uid}
            self.pod = {"name": copy, "on": move.target, "marks": marks, "status": crashing()}
        return ""


@pytest.mark.parametrize("copy_fails", [True, False], ids=["its copies fail", "it fails after each move"])
@pytest.mark.parametrize("nodes", [2, 3, 6])
@pytest.mark.parametrize("retries", [1, 2, 3, 7])
def test_so_many_tries_are_so_many_moves_and_then_it_ends(retries, nodes, copy_fails):
    story = Story(nodes=nodes, retries=retries)
    ends = [story.check(copy_fails=copy_fails) for _ in range(retries + 4)]
    assert len(story.moves) == retries
    assert ends == [""] * retries + [Reason.GAVE_UP] * 4
    targets = [target for _, target in story.moves]
    fresh = targets[: nodes - 1]
    assert len(set(fresh)) == len(fresh), "a node twice before all were tried"
    assert all(source != target for source, target in story.moves)


def test_with_a_larger_allowance_it_goes_on_and_makes_so_many_in_all():
    story = Story(nodes=9, retries=2)
    for _ in range(4):
        story.check(copy_fails=True)
    assert len(story.moves) == 2
    story.retries = 5
    for _ in range(6):
        story.check(copy_fails=True)
    assert len(story.moves) == 5


def test_another_template_gets_tries_of_its_own():
    story = Story(nodes=4, retries=1)
    assert [story.check(copy_fails=False) for _ in range(2)] == ["", Reason.GAVE_UP]
    story.revision = "2"
    story.pod = {"name": "web-new", "on": "n1", "marks": {}, "status": crashing()}
    assert [story.check(copy_fails=False) for _ in range(2)] == ["", Reason.GAVE_UP]


def test_a_process_that_ends_between_the_record_and_the_move_changes_nothing():
    story, other = Story(nodes=5, retries=2), Story(nodes=5, retries=2)
    for _ in range(6):
        snapshot = story.cluster().snapshot(now=story.now)
        case = examine_pod(snapshot, Terms(), snapshot.pods.row[f"shop/{story.pod['name']}"])
        story.ledger = case.failing[0].recorded_in(case.ledger, story.now)  # and then it ended
        story.check(copy_fails=False)
        other.check(copy_fails=False)
    assert story.moves == other.moves
    assert len(story.moves) == 2


def test_when_it_has_run_well_for_long_enough_nothing_is_left_of_it():
    story = Story(nodes=3, retries=3)
    story.check(copy_fails=False)
    well = status_of(container(ready=True), ready=True, unready_ago_s=600)
    story.pod["status"] = well
    snapshot = story.cluster().snapshot()
    found = examine_pod(snapshot, Terms(), snapshot.pods.row[f"shop/{story.pod['name']}"])
    assert found is not None
    assert found.recovered == ("web-0",)
    assert found.ledger.without(found.recovered).written("any") == ""
