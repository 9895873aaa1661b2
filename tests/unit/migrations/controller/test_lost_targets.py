"""Targets that are lost, on the simulator as on the real control plane."""

from tests.e2e.migrations.test_lost_targets import *  # noqa: F403
