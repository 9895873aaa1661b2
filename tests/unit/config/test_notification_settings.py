"""The settings `notifications`: every fault with its path and what is allowed."""

import pytest

from rescheduler.config.notification_settings import NotificationEvent, NotificationFormat

HOOK = {"name": "ops", "url": "https://alerts.example.com/rescheduler"}


def test_every_setting_arrives(loading):
    given = {
        "name": "chat",
        "urlFile": "/etc/rescheduler-notifications/url",
        "format": "slack",
        "events": ["Halted"],
        "headerFile": "/etc/rescheduler-notifications/header",
        "caFile": "/etc/ca.pem",
        "timeout": "3s",
    }
    hook, chat = loading.policy(notifications=[HOOK, given]).notifications
    assert (hook.format, hook.events) == (NotificationFormat.CLOUD_EVENTS, tuple(NotificationEvent))
    assert (chat.url_file, chat.events) == (given["urlFile"], (NotificationEvent.HALTED,))
    assert chat.timeout.total_seconds() == 3


@pytest.mark.parametrize(
    ("given", "path", "why"),
    [
        pytest.param([{"name": "ops"}], "notifications[0]", "either url or urlFile", id="no address"),
        pytest.param(
            [{**HOOK, "urlFile": "/x"}], "notifications[0]", "either url or urlFile", id="two addresses"
        ),
        pytest.param(
            [{**HOOK, "url": "http://alerts.example.com", "headerFile": "/x"}],
            "notifications[0]",
            "headerFile would be sent unencrypted",
            id="a secret header without encryption",
        ),
        pytest.param(
            [{**HOOK, "url": "https://user:pass@example.com"}],
            "notifications[0].url",
            "without user and query",
            id="credentials in the address",
        ),
        pytest.param([{**HOOK, "name": "Ops!"}], "notifications[0].name", "lower-case", id="a bad name"),
        pytest.param([HOOK, HOOK], "notifications[0].name", "no other entry has", id="a name twice"),
        pytest.param(
            [{**HOOK, "events": ["Moved"]}], "notifications[0].events[0]", "one of Halted", id="no event"
        ),
        pytest.param(
            [{**HOOK, "name": f"n{number}"} for number in range(11)],
            "notifications[10].name",
            "at most 10 entries",
            id="too many",
        ),
    ],
)
def test_invalid_settings_are_refused_with_their_path(loading, given, path, why):
    fault = loading.arg_faults(notifications=given)[0]
    assert fault.startswith(path)
    assert why in fault
