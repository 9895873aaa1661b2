"""The other kinds of workloads: each recovers by its own rules, and no workload is recreated itself."""

from collections.abc import Callable

import pytest

from rescheduler.api.podmigration import Handover, MigrationPhase
from rescheduler.api.well_known_names import AVOIDED_NODES_ANNOTATION, FAILED_ATTEMPTS_ANNOTATION
from rescheduler.kube.api_resources import Object
from tests.stories.objects import ready_since
from tests.stories.recovery.recovery_sandbox import (
    CRASH,
    RESOURCES,
    RETRIES,
    MakeRecovery,
    RecoverySandbox,
    alone,
)
from tests.stories.sandbox import node_of
from tests.stories.waiting import until_object

DONE = {"run": {"lasts": "1s", "exitCode": 0}}


def uid_of(item: Object) -> str:
    return str(item["metadata"]["uid"])


# -- StatefulSets


async def test_stateful_set_pod_gets_another_node(make_recovery: MakeRecovery) -> None:
    """It is created again, away from where it failed."""
    recovery: RecoverySandbox = await make_recovery(nodes=3)
    broken, *others = recovery.sandbox.nodes
    recovery.breaks(broken)
    await recovery.crowd(*others)
    await recovery.workload_on(broken, "StatefulSet", retries="3")
    async with recovery.recovering():
        ledger = await recovery.until_ledger("StatefulSet", lambda ledger: ledger.lineages)
        assert {name: line.nodes for name, line in ledger.lineages.items()} == {"web-0": (broken,)}
        (well,) = await recovery.until_well()
        await recovery.until_forgotten("StatefulSet")
    assert well["metadata"]["name"] == "web-0"
    assert node_of(well) != broken
    recovery.must_be_kept_off(well, broken)
    migrations = await recovery.migrations()
    assert {migration.status.handover for migration in migrations} == {Handover.EVICT}
    # Who gets no answer in time goes on without: on a busy machine that may cost a try.
    assert len(migrations) == 1 or recovery.is_shared


@alone
async def test_retries_of_a_stateful_set(make_recovery: MakeRecovery) -> None:
    """Its pod is tried as often as it may be, and no more."""
    recovery: RecoverySandbox = await make_recovery(nodes=4)
    recovery.breaks(*recovery.sandbox.nodes)
    await recovery.workload_on(recovery.sandbox.nodes[0], "StatefulSet", retries="2")
    async with recovery.recovering():
        ledger = await recovery.until_ledger(
            "StatefulSet", lambda ledger: any(line.end for line in ledger.lineages.values())
        )
        await recovery.for_a_while()
        assert len(await recovery.migrations()) == 2
    line = ledger.lineages["web-0"]
    assert line.count == 2
    assert len(set(line.nodes)) == 3, "three nodes: where it was, and two more"


async def test_a_budget_that_allows_nothing_is_heeded(make_recovery: MakeRecovery) -> None:
    """The other pod is healthy, and the budget wants both: then no eviction, not even of one that fails."""
    recovery: RecoverySandbox = await make_recovery(nodes=3)
    broken = recovery.sandbox.nodes[0]
    await recovery.workload("StatefulSet", retries="3", replicas=2)
    pods = await recovery.until_well(2)
    await recovery.sandbox.budget(minAvailable=2)
    failing = next((node_of(pod) for pod in pods if node_of(pod) == broken), node_of(pods[0]))
    recovery.breaks(failing)
    async with recovery.recovering():
        await recovery.for_a_while()
        left = {uid_of(pod) for pod in await recovery.pods()}
    assert left == {uid_of(pod) for pod in pods}


# -- DaemonSets


async def test_a_daemon_set_s_pod_is_restarted_where_it_is(make_recovery: MakeRecovery) -> None:
    recovery: RecoverySandbox = await make_recovery(nodes=2)
    broken = recovery.sandbox.nodes[0]
    recovery.breaks(broken)
    await recovery.workload("DaemonSet", retries="3")
    pods = await recovery.until_pods(
        lambda pods: pods if len(pods) == 2 and all(map(node_of, pods)) else None
    )
    before = next(uid_of(pod) for pod in pods if node_of(pod) == broken)
    async with recovery.recovering():
        await recovery.until_pods(
            lambda pods: any(uid_of(pod) != before and node_of(pod) == broken for pod in pods)
        )
        recovery.sandbox.behave()
        ledger = await recovery.ledger("DaemonSet")
        assert [name for name, line in ledger.lineages.items() if line.count] == [broken]
        await recovery.until_well(2)
        await recovery.until_forgotten("DaemonSet")
        await recovery.until_event("RestartedInPlace")
    assert await recovery.migrations() == []


@alone
async def test_retries_of_a_daemon_set(make_recovery: MakeRecovery) -> None:
    """Its pod is restarted as often as it may be, and no more."""
    recovery: RecoverySandbox = await make_recovery(nodes=1)
    (broken,) = recovery.sandbox.nodes
    recovery.breaks(broken)
    await recovery.workload("DaemonSet", retries="2")
    async with recovery.recovering():
        ledger = await recovery.until_ledger(
            "DaemonSet", lambda ledger: any(line.end for line in ledger.lineages.values())
        )
        (last,) = await recovery.pods()
        await recovery.for_a_while()
        assert [uid_of(pod) for pod in await recovery.pods()] == [uid_of(last)]
    line = ledger.lineages[broken]
    assert line.count == 2
    assert line.end is not None
    assert len({*(each.pod for each in line.tries), line.end.pod}) == 3


# -- Jobs


def finished(job: Object) -> bool:
    return any(
        each["type"] == "Complete" and each["status"] == "True"
        for each in job["status"].get("conditions") or ()
    )


@pytest.mark.simulator(reason="its back-off is longer than all that is remembered on the control plane")
async def test_a_job_s_failed_pod_is_replaced_by_the_job_and_kept_off(make_recovery: MakeRecovery) -> None:
    """The Job creates the next pod at once: from the one after that on, pods are steered away."""
    recovery: RecoverySandbox = await make_recovery(nodes=2)
    broken, good = recovery.sandbox.nodes
    recovery.sandbox.behave({"match": {"node": broken}, **CRASH}, DONE)
    await recovery.sandbox.cordon(good)
    job = await recovery.workload(
        "Job", retries="3", pod={"restartPolicy": "Never"}, backoffLimit=6, podReplacementPolicy="Failed"
    )
    async with recovery.recovering():
        await recovery.until_ledger("Job", lambda ledger: ledger.lineages)
        await recovery.sandbox.cordon(good, on=False)
        done = await until_object(
            recovery.client,
            RESOURCES["Job"],
            recovery.sandbox.key("web"),
            finished,
            timeout_s=recovery.pace.timeout_s,
        )
        await recovery.until_forgotten("Job")
    assert uid_of(done) == uid_of(job), "never recreated"
    assert await recovery.migrations() == []
    recovery.must_be_kept_off(next(pod for pod in await recovery.pods() if node_of(pod) == good), broken)


async def test_a_job_s_crashing_pod_is_evicted_within_what_the_job_allows(
    make_recovery: MakeRecovery,
) -> None:
    recovery: RecoverySandbox = await make_recovery(nodes=2)
    broken = recovery.sandbox.nodes[0]
    recovery.sandbox.behave({"match": {"node": broken}, "blocked": "ImagePullBackOff"}, DONE)
    job = await recovery.workload_on(broken, "Job", retries="3", pod={"restartPolicy": "OnFailure"})
    async with recovery.recovering():
        done = await until_object(
            recovery.client,
            RESOURCES["Job"],
            recovery.sandbox.key("web"),
            finished,
            timeout_s=recovery.pace.timeout_s,
        )
        (migration,) = await recovery.until_migrations(1)
    assert uid_of(done) == uid_of(job)
    assert done["status"]["failed"] == 1, "what the eviction costs it"
    assert migration.status.handover is Handover.EVICT
    assert migration.status.phase is MigrationPhase.COMPLETED


async def test_the_last_failure_that_a_job_allows_itself_is_never_ours(make_recovery: MakeRecovery) -> None:
    recovery: RecoverySandbox = await make_recovery(nodes=2)
    broken = recovery.sandbox.nodes[0]
    recovery.sandbox.behave({"match": {"node": broken}, "blocked": "ImagePullBackOff"}, DONE)
    pod = {"restartPolicy": "OnFailure"}
    await recovery.workload_on(broken, "Job", retries="3", pod=pod, backoffLimit=0)
    async with recovery.recovering():
        await recovery.for_a_while()
        assert await recovery.migrations() == []
    (left,) = await recovery.pods()
    assert not ready_since(left)


async def test_what_fails_in_the_jobs_of_a_cron_job_is_on_its_record(make_recovery: MakeRecovery) -> None:
    recovery: RecoverySandbox = await make_recovery(nodes=2)
    broken, good = recovery.sandbox.nodes
    recovery.sandbox.behave({"match": {"node": broken}, "blocked": "ImagePullBackOff"}, DONE)
    made = await recovery.workload(
        "CronJob", retries="3", pod={"restartPolicy": "OnFailure"}, suspend=True, concurrencyPolicy="Forbid"
    )
    job = recovery.job_of(made)
    await recovery.sandbox.cordon(good)
    await recovery.client.create(RESOURCES["Job"], job)
    await recovery.until_pods(lambda pods: [node_of(pod) for pod in pods] == [broken])
    await recovery.sandbox.cordon(good, on=False)
    async with recovery.recovering():
        await recovery.until_ledger("CronJob", lambda ledger: ledger.lineages)
        await until_object(
            recovery.client,
            RESOURCES["Job"],
            recovery.sandbox.key(job["metadata"]["name"]),
            finished,
            timeout_s=recovery.pace.timeout_s,
        )
        await recovery.until_forgotten("CronJob")
    item = await recovery.client.get(RESOURCES["Job"], recovery.sandbox.key(job["metadata"]["name"]))
    assert FAILED_ATTEMPTS_ANNOTATION not in item["metadata"].get("annotations", {})


# -- bare pods


async def test_a_bare_pod_is_copied_to_another_node_with_its_record(make_recovery: MakeRecovery) -> None:
    recovery: RecoverySandbox = await make_recovery(nodes=3)
    first, second, good = recovery.sandbox.nodes
    recovery.breaks(first, second)
    await recovery.sandbox.cordon(good)
    await recovery.workload_on(first, "Pod", retries="3")
    await recovery.sandbox.cordon(good)
    async with recovery.recovering():
        await recovery.until_migrations(1)
        await recovery.sandbox.cordon(good, on=False)
        (well,) = await recovery.until_well()
        assert node_of(well) == good
        name = well["metadata"]["name"]
        assert name.startswith("rescheduled-web-")
        assert well["metadata"]["annotations"][RETRIES] == "3"
        await recovery.until_forgotten("Pod", name)
    # A further attempt is made if the second one is decided before the good node can be used.
    handovers = [each.status.handover for each in await recovery.migrations()]
    assert len(handovers) in {2, 3}
    assert set(handovers) == {Handover.COPY}


# -- replaced by their controllers


async def test_pod_evicted_by_its_kubelet(make_recovery: MakeRecovery) -> None:
    """From the next pod on, replacements keep off that node."""
    recovery: RecoverySandbox = await make_recovery(nodes=2)
    broken, good = recovery.sandbox.nodes
    await recovery.crowd(good)
    await recovery.sandbox.cordon(good)
    recovery.breaks(broken, evicted={"after": "2s"})
    template = {"owner": "somebody"}
    await recovery.workload("ReplicaSet", retries="3", template_marks=template)
    async with recovery.recovering():
        await recovery.until_ledger("ReplicaSet", lambda ledger: ledger.lineages)
        await recovery.sandbox.cordon(good, on=False)
        well = await recovery.until_pods(lambda pods: next(filter(ready_on(good), pods), None))
    annotations = well["metadata"]["annotations"]
    assert annotations["owner"] == "somebody", "what was there stays there"
    if AVOIDED_NODES_ANNOTATION in annotations:
        recovery.must_be_kept_off(well, broken)
    assert await recovery.migrations() == []


def ready_on(node: str) -> Callable[[Object], bool]:
    return lambda pod: node_of(pod) == node and bool(ready_since(pod))
