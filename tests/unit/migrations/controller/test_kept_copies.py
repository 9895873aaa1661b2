"""Copies that a roll-back keeps, on the simulator as on the real control plane."""

from tests.e2e.migrations.test_kept_copies import *  # noqa: F403
