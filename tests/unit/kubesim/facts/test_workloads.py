"""What Deployments make of attempts to steer their pods.

What comes back with `kubectl rollout undo` needs kubectl: that fact is held in `tests/e2e/simulated`.
"""

from tests.e2e.facts.test_workloads import (  # noqa: F401
    test_a_negative_weight_is_refused,
    test_a_preference_in_a_deployments_template_replaces_every_pod_and_moves_them_all,
    test_the_replica_sets_template_edited_while_paused_steers_one_replacement_without_a_rollout,
)
