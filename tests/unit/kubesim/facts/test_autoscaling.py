"""An autoscaler counts the copy."""

from tests.e2e.facts.test_autoscaling import *  # noqa: F403
