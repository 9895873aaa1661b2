"""Creating the copy can be refused. Then nothing has changed: the workload is as it was.

The simulator has no admission policies and no PodSecurity: those facts are held in `tests/e2e` alone.
"""

from tests.e2e.facts.test_adopt_refused import (  # noqa: F401
    test_a_limit_range_refuses_with,
    test_a_quota_refuses_with_403,
    test_a_webhook_refuses_with,
)
