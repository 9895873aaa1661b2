"""What looks simpler than Adopt goes wrong on the simulator in the same way.

That `kubectl drain` is blocked needs kubectl: that fact is held in `tests/e2e/simulated`.
"""

from tests.e2e.facts.test_wrong_ways import (  # noqa: F401
    priorities,
    test_a_copy_pinned_to_its_target_preempts_pods_there_against_their_budget,
    test_a_nominated_copy_goes_elsewhere_and_preempts_nobody,
    test_a_pod_that_names_its_node_is_bound_whatever_speaks_against_it,
    test_the_hash_trick_deletes_a_pod_that_the_user_marked_as_cheaper,
    test_the_hash_trick_deletes_an_unready_sibling_instead,
    test_the_hash_trick_deletes_the_source_past_a_budget_that_allows_nothing,
    test_the_hash_trick_evades_anti_affinity_by_revision,
    test_the_pin_stays_for_the_pods_life,
    test_with_an_eviction_at_the_same_time_the_hash_trick_falls_below_the_count,
)
