"""PodMigrations that are removed by force, on the simulator as on the real control plane."""

from tests.e2e.migrations.test_forced_removal import *  # noqa: F403
