"""Replacements are steered by the webhook, which the real API server calls."""

from tests.e2e.steering.moving import *  # noqa: F403
from tests.e2e.steering.replacing import *  # noqa: F403
