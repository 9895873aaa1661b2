"""Replacements are steered by the extender, which the real kube-scheduler asks."""

import pytest

from tests.e2e.steering.moving import *  # noqa: F403
from tests.e2e.steering.replacing import *  # noqa: F403

pytestmark = pytest.mark.full
