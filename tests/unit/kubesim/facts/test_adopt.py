"""The Adopt handover moves pods on the simulator as it does on the real control plane."""

from tests.e2e.facts.test_adopt import *  # noqa: F403
