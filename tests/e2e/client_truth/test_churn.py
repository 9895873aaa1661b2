"""After any disturbance of the API server, caches equal a fresh list, and meanwhile they report their
staleness.
"""

import pytest

from tests.e2e.client_truth.disturbances import EVERY_KIND
from tests.e2e.client_truth.disturbed_informers import run_disturbances
from tests.testbed import ControlPlane

pytestmark = pytest.mark.full


async def test_caches_equal_a_fresh_list_after_churn_and_failures(bare: ControlPlane) -> None:
    await run_disturbances(bare, EVERY_KIND)
