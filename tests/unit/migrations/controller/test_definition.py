"""What a PodMigration may be, on the simulator as on the real control plane."""

from tests.e2e.migrations.test_definition import *  # noqa: F403
