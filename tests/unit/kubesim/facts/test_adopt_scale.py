"""The scale that budgets ask for while the copy exists."""

from tests.e2e.facts.test_adopt_scale import *  # noqa: F403
