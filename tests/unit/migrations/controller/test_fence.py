"""The version that an eviction has seen, on the simulator as on the real control plane."""

from tests.e2e.migrations.test_fence import *  # noqa: F403
