"""A controller that ends in the middle, on the simulator as on the real control plane."""

from tests.e2e.migrations.test_crash import *  # noqa: F403
