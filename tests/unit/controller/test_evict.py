"""The Evict handover, on the simulator as on the real control plane."""

from tests.e2e.migrations.test_evict import *  # noqa: F403
