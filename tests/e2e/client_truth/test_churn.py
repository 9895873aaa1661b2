"""Whatever happens to the API server, caches end up like a fresh list, and say meanwhile how old they are."""

import pytest

from tests.e2e.client_truth.disturbances import EVERY_KIND
from tests.e2e.client_truth.endurance import endure
from tests.testbed import ControlPlane

pytestmark = pytest.mark.full


async def test_caches_equal_a_fresh_list_after_churn_and_failures(bare: ControlPlane) -> None:
    await endure(bare, EVERY_KIND)
