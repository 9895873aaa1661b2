"""The facts that rest on what kubectl makes of a cluster hold on the simulator, too.

All others run there every day, without a kubectl at hand: `tests/unit/simulator/facts`.
"""

from tests.e2e.facts.test_workloads import (  # noqa: F401
    test_annotations_are_copied_to_the_replica_sets_and_come_back_with_a_rollback,
)
from tests.e2e.facts.test_wrong_ways import test_the_unowned_copy_blocks_kubectl_drain  # noqa: F401
