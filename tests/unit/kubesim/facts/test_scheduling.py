"""Extenders that fail, topology labels, new nodes, resize in place."""

from tests.e2e.facts.test_scheduling import *  # noqa: F403
