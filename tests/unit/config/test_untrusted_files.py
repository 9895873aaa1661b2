"""Any file is loaded or refused with a message, quickly and never with a traceback."""

import json

from hypothesis import given
from hypothesis import strategies as st

from rescheduler.config import policy
from rescheduler.config.config_loader import load_content
from rescheduler.config.config_validation import BUILT_IN_STRATEGIES, ConfigurationError
from rescheduler.config.policy import Configuration
from rescheduler.config.policy_blocks import settings

NAMES = [
    "apiVersion", "kind", "profiles", "pluginConfig", "name", "args", "schedulerName",
    "leaderElection", "resourceName", "clientConnection", "<<", "zzz", "", "[key]",
    *(setting.name for setting in settings(policy.Policy)),
    *(setting.name for setting in settings(policy.FailedPodsPolicy)),
    "from", "to", "days", "zone", "LoadBalancing", "Pod",
]  # fmt: skip
VALUES = [
    "Rescheduler", "rescheduler", "kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration",
    "30s", "-1s", "0s", "22:00", "UTC", "Europe", "a=b", "a in (", "LoadBalancing", "Evict", "",
    "\x1b", "\ud800", "\u2028",
]  # fmt: skip

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from([10**400, -(2**63)])
    | st.sampled_from(VALUES)
    | st.text(alphabet="aZ0. \n\x7f\u2028é", max_size=8)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)
arguments = st.dictionaries(st.sampled_from(NAMES), values, max_size=6)


def load(content):
    """The outcome, which must be one of these two."""
    try:
        return load_content(content, BUILT_IN_STRATEGIES, source="test.yaml").configuration
    except ConfigurationError as error:
        assert error.faults  # noqa: PT017 - either outcome is right
        assert all(str(fault).isprintable() for fault in error.faults)  # noqa: PT017
        return None


def as_file(**parts):
    typed = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return json.dumps(typed | parts).encode()


@given(arguments)
def test_any_args(args):
    load(as_file(profiles=[{"pluginConfig": [{"name": "Rescheduler", "args": args}]}]))


@given(st.dictionaries(st.sampled_from(NAMES), values, max_size=6))
def test_any_file_of_the_right_type(parts):
    load(as_file(**parts))


@given(values)
def test_any_structure(value):
    load(json.dumps(value).encode())


@given(st.text(alphabet="ab:-[]{}&*!|>'\"%@`#,? \n\t0\\<=~\x00\x85\ufeff", max_size=40))
def test_any_yaml_like_text(text):
    load(text.encode())


@given(st.binary(max_size=60))
def test_any_bytes(content):
    load(content)


@given(st.dictionaries(st.sampled_from(NAMES), st.none(), max_size=10))
def test_nulls_alone_change_nothing_unless_the_name_is_unknown(args):
    loaded = load(as_file(profiles=[{"pluginConfig": [{"name": "Rescheduler", "args": args}]}]))
    assert loaded == Configuration()
