"""An upgrade in the middle of a move, on the simulator as on the real control plane."""

from tests.e2e.migrations.test_upgrading import *  # noqa: F403
