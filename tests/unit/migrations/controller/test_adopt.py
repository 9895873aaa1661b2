"""The Adopt handover, on the simulator as on the real control plane."""

from tests.e2e.migrations.test_adopt import *  # noqa: F403
