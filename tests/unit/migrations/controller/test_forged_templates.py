"""Deployments whose template carries our marks, on the simulator as on the real control plane."""

from tests.e2e.migrations.test_forged_templates import *  # noqa: F403
