"""What is granted is what is used: by all that our programs did in `make e2e`.

Runs last (see `conftest.py`).
"""

import pytest

from rescheduler.install.rbac import (
    DAEMON_CLUSTER_GRANTS,
    DAEMON_NAMESPACE_GRANTS,
    WEBHOOK_CLUSTER_GRANTS,
    WEBHOOK_NAMESPACE_GRANTS,
)
from tests.e2e.permissions import DAEMON, WEBHOOK, Seen, unused

NEEDED = {"daemon", "migrations", "recovery", "steering"}
"""Folders whose tests use all that there is."""


@pytest.fixture(scope="module")
def seen() -> Seen:
    return Seen.in_all_control_planes()


def test_no_request_of_our_programs_was_forbidden(seen: Seen) -> None:
    assert seen.never_allowed == []


def test_no_request_of_our_programs_was_denied_by_a_policy(seen: Seen) -> None:
    assert sorted(seen.denied) == []


def test_no_verb_is_granted_that_is_never_used(seen: Seen, request: pytest.FixtureRequest) -> None:
    ran = {item.path.parent.name for item in request.session.items}
    if not ran >= NEEDED or request.session.testsfailed:
        pytest.skip("needs all tests of `make e2e`, and none of them failed")
    never = [
        *unused(DAEMON, (*DAEMON_CLUSTER_GRANTS, *DAEMON_NAMESPACE_GRANTS), seen.used),
        *unused(WEBHOOK, (*WEBHOOK_CLUSTER_GRANTS, *WEBHOOK_NAMESPACE_GRANTS), seen.used),
    ]
    assert never == []
