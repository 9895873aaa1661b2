"""A configuration that is written out loads again as what it was."""

import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.config.config_document import read_document
from rescheduler.config.move_limits import Window
from rescheduler.config.policy import (
    ClientConnection,
    Configuration,
    FailedPodsPolicy,
    LeaderElection,
    Policy,
)
from rescheduler.config.policy_blocks import settings
from rescheduler.config.scheduler_file import inline_yaml, render_defaults, render_effective

UNUSUAL = {
    "enabledStrategies": ["CostOptimization", "LoadBalancing"],
    "strategyNodeSelectors": {"LoadBalancing": "pool in (a,b),!old", "CostOptimization": "pool=c"},
    "excludedPodSelector": "app=yes,x notin (1,2),y>3",
    "handovers": {"Rollout.argoproj.io": "Evict"},
    "windows": [{"days": ["Sun"], "from": "22:30", "to": "24:00", "zone": "Asia/Tokyo"}],
    "failedPods": {"defaultRetries": [{"namespaces": ["yes", "1"], "podSelector": "a", "retries": 2}]},
    "knownSchedulers": ["null", "1e3", "ünï", "a:", "#c", '"', "\U0001f600"],
    "usageSource": "prometheus",
    "prometheus": {"url": "https://[::1]:9090/prom/", "cpuQuery": 'sum(\n\ta{b="ü"} # c\n)', "timeout": "1m"},
    "settleTime": "1.5s",
    "maxPriority": 7,
    "gracePeriodSeconds": 5,
    "minGain": 1e-7,
}


def test_the_effective_configuration_loads_as_itself(loading):
    connection = {"qps": -1, "kubeconfig": "~/.kube/config: yes"}
    loaded = loading.data(
        clientConnection=connection, profiles=[{"pluginConfig": [{"name": "Rescheduler", "args": UNUSUAL}]}]
    )
    again = loading.text(render_effective(loaded.configuration))
    assert again.configuration == loaded.configuration
    assert again.notes == ()


def test_what_is_printed_is_plain_ascii_for_any_terminal(loading):
    assert render_effective(loading.args(**UNUSUAL).configuration).isascii()
    assert render_defaults().isascii()


def test_defaults_are_marked_and_other_values_are_not(loading):
    lines = render_effective(loading.args(hotChecks=5, maxRetries=3).configuration).splitlines()
    assert "          hotChecks: 5" in lines
    assert "          maxRetries: 3  # default" in lines
    assert "            failureRatio: 0.5  # default" in lines


def test_the_commented_defaults_load_as_the_defaults(loading):
    loaded = loading.text(render_defaults())
    assert loaded.configuration == Configuration()
    assert loaded.notes == ()


def test_the_commented_defaults_show_and_explain_every_setting():
    text = render_defaults()
    for block in (Policy, FailedPodsPolicy, ClientConnection, LeaderElection):
        for setting in settings(block):
            assert re.search(rf"# .*\n +{setting.name}:", text), setting.name


durations = st.timedeltas(timedelta(seconds=1), timedelta(days=1000))


@given(
    st.builds(
        Policy,
        rescheduling_interval=durations,
        settle_time=durations,
        cpu_threshold=st.floats(0, 100),
        min_gain=st.floats(0, 1),
        max_priority=st.none() | st.integers(-(2**31), 2**31 - 1),
        dry_run=st.booleans(),
        windows=st.lists(
            st.builds(Window, from_=st.integers(0, 700), to=st.integers(701, 1440)), max_size=2
        ).map(tuple),
    )
)
def test_any_policy_survives_being_written_and_read(loading, policy):
    assert loading.text(render_effective(Configuration(policy=policy))).configuration.policy == policy


plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
printable = st.text(alphabet="aZ09 :#'\"\\-{}[],&*!|>%@`~<=?.é\u4e2d\U0001f600", max_size=10)


@given(
    st.recursive(
        plain | printable, lambda inner: st.lists(inner) | st.dictionaries(printable, inner), max_leaves=8
    )
)
def test_any_value_on_one_line_is_read_as_itself(value):
    assert read_document(f"x: {inline_yaml(value)}".encode()).data == {"x": value}


@pytest.mark.parametrize("text", ["30s", "1h30m", "LoadBalancing", "kube-system", "nvidia.com/gpu"])
def test_simple_texts_stand_without_quotes(text):
    assert inline_yaml(text) == text
