"""What the Eviction API answers, to the letter."""

from tests.e2e.facts.test_eviction import *  # noqa: F403
