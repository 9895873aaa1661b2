"""Migrations that are deleted, on the simulator as on the real control plane."""

from tests.e2e.migrations.test_cancelling import *  # noqa: F403
