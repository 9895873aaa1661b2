"""Workloads that want no pods any more, on the simulator as on the real control plane."""

from tests.e2e.migrations.test_unwanted_copies import *  # noqa: F403
