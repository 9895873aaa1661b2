"""The stories of `tests/e2e/recovery`, in virtual time, each with the whole program to itself."""

from tests.e2e.recovery.stories.circumstances import *  # noqa: F403
from tests.e2e.recovery.stories.deployments import *  # noqa: F403
from tests.e2e.recovery.stories.workloads import *  # noqa: F403
