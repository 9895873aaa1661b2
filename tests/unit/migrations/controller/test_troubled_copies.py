"""Copies that don't come up as they should, on the simulator as on the real control plane."""

from tests.e2e.migrations.test_troubled_copies import *  # noqa: F403

# The simulator has neither.
del test_a_copy_that_pod_security_refuses  # noqa: F821
del test_a_copy_that_an_admission_policy_refuses  # noqa: F821
