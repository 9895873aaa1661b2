"""Replacements are steered by the extender, which the real kube-scheduler asks."""

from tests.e2e.steering.moving import *  # noqa: F403
from tests.e2e.steering.replacing import *  # noqa: F403
