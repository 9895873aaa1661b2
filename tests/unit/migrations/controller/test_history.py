"""Finished migrations are history, on the simulator as on the real control plane."""

from tests.e2e.migrations.test_history import *  # noqa: F403
