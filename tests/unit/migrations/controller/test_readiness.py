"""When a copy counts, on the simulator as on the real control plane."""

from tests.e2e.migrations.test_readiness import *  # noqa: F403
