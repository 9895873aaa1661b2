"""What an eviction costs a Job, and when that is too much."""

import pytest

from rescheduler.recovery.controller.owner_trees import job_forbids_eviction


def job(failed=0, **spec):
    return {"spec": spec, "status": {"failed": failed} if failed else {}}


def rule(action, kind="DisruptionTarget"):
    return {"action": action, "onPodConditions": [{"type": kind, "status": "True"}]}


@pytest.mark.parametrize(
    ("item", "forbidden"),
    [
        pytest.param(job(), False, id="none has failed, of six by default"),
        pytest.param(job(5), False, id="one failure is left"),
        pytest.param(job(6), True, id="the next one would be the end of the Job"),
        pytest.param(job(backoffLimit=0), True, id="it allows itself no failure at all"),
        pytest.param(job(3, backoffLimit=4), False, id="within its own limit"),
        pytest.param(
            job(9, backoffLimit=0, podFailurePolicy={"rules": [rule("Ignore")]}),
            False,
            id="it ignores disruptions",
        ),
        pytest.param(
            job(9, backoffLimit=0, podFailurePolicy={"rules": [rule("Count"), rule("Ignore")]}),
            True,
            id="the first rule that applies counts",
        ),
        pytest.param(
            job(9, backoffLimit=0, podFailurePolicy={"rules": [rule("Ignore", "Other")]}),
            True,
            id="it ignores something else",
        ),
        pytest.param(job(9, backoffLimitPerIndex=1), False, id="every index has a limit of its own"),
        pytest.param(job(0, backoffLimitPerIndex=0), True, id="no index may ever fail"),
        pytest.param({}, False, id="nothing is said"),
    ],
)
def test_an_eviction_is_forbidden_if_the_job_would_fail_by_it(item, forbidden):
    assert bool(job_forbids_eviction(item)) is forbidden
