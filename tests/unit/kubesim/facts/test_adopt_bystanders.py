"""The Adopt handover among others: evictions at the worst moment, unready siblings, rules of placement."""

from tests.e2e.facts.test_adopt_bystanders import *  # noqa: F403
