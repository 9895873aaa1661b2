"""Granted permissions are used ones: checked with all requests of `make e2e`, which runs this test last."""

import os
from pathlib import Path

import pytest

from rescheduler.install.rbac import (
    DAEMON_CLUSTER_GRANTS,
    DAEMON_NAMESPACE_GRANTS,
    WEB_GRANTS,
    WEBHOOK_CLUSTER_GRANTS,
    WEBHOOK_NAMESPACE_GRANTS,
)
from tests.e2e.permissions import DAEMON, WEBHOOK, Seen, unused

CONTROL_PLANES = os.environ.get("E2E_FOLDER")
"""The folder in which the control planes of the other tests ran."""

pytestmark = pytest.mark.skipif(not CONTROL_PLANES, reason="needs the audit logs of a whole `make e2e`")


@pytest.fixture(scope="module")
def seen() -> Seen:
    assert CONTROL_PLANES
    return Seen.in_folder(Path(CONTROL_PLANES))


def test_no_request_of_our_programs_was_forbidden(seen: Seen) -> None:
    assert seen.never_allowed == []


def test_no_request_of_our_programs_was_denied_by_a_policy(seen: Seen) -> None:
    assert sorted(seen.denied) == []


def test_no_verb_is_granted_that_is_never_used(seen: Seen) -> None:
    never = [
        *unused(DAEMON, (*DAEMON_CLUSTER_GRANTS, *DAEMON_NAMESPACE_GRANTS, *WEB_GRANTS), seen.used),
        *unused(WEBHOOK, (*WEBHOOK_CLUSTER_GRANTS, *WEBHOOK_NAMESPACE_GRANTS), seen.used),
    ]
    assert never == []
