"""The extra pod, adoption that comes late, and what can be undone."""

from tests.e2e.facts.test_adopt_timing import *  # noqa: F403
