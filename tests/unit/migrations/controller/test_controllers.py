"""Several migrations and controllers, on the simulator as on the real control plane."""

from tests.e2e.migrations.test_controllers import *  # noqa: F403
