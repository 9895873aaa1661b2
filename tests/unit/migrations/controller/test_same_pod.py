"""Ordinary pods with all that they usually have, on the simulator as on the real control plane."""

from tests.e2e.migrations.test_same_pod import *  # noqa: F403
