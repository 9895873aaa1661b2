"""Sources that are lost, on the simulator as on the real control plane."""

from tests.e2e.migrations.test_lost_sources import *  # noqa: F403
