"""Moves that the admission policy for copies would refuse are not proposed."""

import pytest

from rescheduler.api.well_known_names import HANDOVER_ANNOTATION, PRIVILEGED_COPIES_LABEL
from rescheduler.config.policy import Policy
from rescheduler.planner.explanation import explain_pod
from rescheduler.planner.reasons import Reason
from tests.building import ClusterBuilder, cluster
from tests.e2e.installed.attacks import DAEMONS

RESTRICTED = Policy(restricted_copies=True, include_local_storage=True)

REFUSED = {
    each.name: each.body["spec"]
    for each in DAEMONS
    if each.name.startswith("create a copy with") and "webhook" not in each.name
}
"""What the real API server refuses to the daemon, as the end-to-end tests show."""


def shop(spec, *, labels=None, **more) -> ClusterBuilder:
    return (
        cluster()
        .nodes("a", "b")
        .namespace("shop", **(labels or {}))
        .deployment("shop/web", replicas=2, on=["a"], pod_spec=spec, **more)
    )


def reasons(building: ClusterBuilder, policy=RESTRICTED) -> set[str]:
    return {each.reason for each in explain_pod(building.snapshot(), policy, "shop/web-1-0").kept_by}


def test_there_are_attacks_to_compare_with():
    assert len(REFUSED) >= 8


@pytest.mark.parametrize("spec", REFUSED.values(), ids=REFUSED)
def test_what_the_policy_refuses_is_predicted(spec):
    wanted = {name: value for name, value in spec.items() if name != "schedulingGates"}
    building = shop(wanted)
    assert Reason.COPY_RESTRICTED in reasons(building)
    assert Reason.COPY_RESTRICTED not in reasons(building, Policy())
    assert Reason.COPY_RESTRICTED not in reasons(shop(wanted, labels={PRIVILEGED_COPIES_LABEL: "true"}))
    evicted = shop(wanted, annotations={HANDOVER_ANNOTATION: "Evict"})
    assert Reason.COPY_RESTRICTED not in reasons(evicted)


@pytest.mark.parametrize(
    "context",
    [
        {"capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}},
        {"privileged": False, "procMount": "Default", "runAsUser": 0},
        {"windowsOptions": {"hostProcess": False}},
    ],
)
def test_what_the_policy_allows_is_moved(context):
    spec = {"hostPID": False, "containers": [{"name": "app", "securityContext": context}]}
    assert Reason.COPY_RESTRICTED not in reasons(shop(spec))


def test_the_reason_says_what_gives_access():
    context = {"capabilities": {"add": ["CHOWN", "SYS_ADMIN"]}}
    building = shop({"containers": [{"name": "app", "securityContext": context}]})
    found = explain_pod(building.snapshot(), RESTRICTED, "shop/web-1-0").kept_by
    (detail,) = (each.detail for each in found if each.reason is Reason.COPY_RESTRICTED)
    assert detail == "its copy would have access to the host: capability SYS_ADMIN of container app"
