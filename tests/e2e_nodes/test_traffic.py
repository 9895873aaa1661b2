"""However rescheduler moves a pod with a shutdown delay, its clients lose no request."""

import itertools
from collections.abc import Iterator

import pytest

from tests.e2e_nodes.installation import HOME, Installation
from tests.e2e_nodes.traffic.__main__ import ARGS
from tests.e2e_nodes.traffic.traffic_cases import CORE, VARIANTS, Case
from tests.e2e_nodes.traffic.traffic_run import deployed, run_case
from tests.testbed import ControlPlane
from tests.testbed.nodes import Nodes

pytestmark = pytest.mark.full

CASES = [case for case in (*CORE, *VARIANTS) if case.is_ours and case.app.delay_s and not case.app.stateful]
STATEFUL = next(case for case in VARIANTS if case.app.stateful)
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def installation(
    control_plane: ControlPlane, nodes: Nodes, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    made = Installation(control_plane, nodes, tmp_path_factory.mktemp("values"))
    made.prepare()
    made.apply_manifests(made.values(ARGS))
    made.wait_ready()
    yield made
    made.rescheduler("uninstall", "--yes", "--history")
    nodes.kubectl("delete", "namespace", HOME, "--timeout=120s")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.row}: {case.app}: {case.load}")
def test_nothing_is_lost(case: Case, installation: Installation) -> None:
    with deployed(installation, case.app, f"test-traffic-{next(_numbers)}") as on:
        found = run_case(case, on)
    assert found["failed"] == 0, (found["errors"], found["seconds"])
    assert found["pods"] > case.app.replicas, "the load ended before the move"


def test_a_stateful_set_s_pod_is_missing_while_it_starts(installation: Installation) -> None:
    """The gap is the time to start, and little more."""
    with deployed(installation, STATEFUL.app, f"test-traffic-{next(_numbers)}") as on:
        found = run_case(STATEFUL, on)
    assert STATEFUL.app.start_s * 1000 < found["longestGapMs"] < (STATEFUL.app.start_s + 20) * 1000
