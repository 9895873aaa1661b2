"""Copies that can't be adopted, on the simulator as on the real control plane."""

from tests.e2e.migrations.test_unadoptable_copies import *  # noqa: F403
