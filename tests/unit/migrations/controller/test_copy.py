"""The Copy handover, on the simulator as on the real control plane."""

from tests.e2e.migrations.test_copy import *  # noqa: F403
