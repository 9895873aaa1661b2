"""The plugin's arguments are found in a scheduler's file; the rest is ignored, and that is reported."""

import logging
import math

import pytest

from rescheduler.config.config_loader import load_file
from rescheduler.config.config_validation import BUILT_IN_STRATEGIES, known_strategies
from rescheduler.config.policy import Configuration

OURS = {"name": "Rescheduler", "args": {"dryRun": True}}


def test_other_profiles_plugins_and_settings_are_ignored_with_a_note_each(loading):
    loaded = loading.data(
        parallelism=16,
        extenders=[{"urlPrefix": "https://example.com"}],
        profils=[],
        profiles=[
            {
                "schedulerName": "default-scheduler",
                "pluginConfig": [{"name": "NodeResourcesFit", "args": {"x": 1}}],
            },
            {"schedulerName": "mine", "plugins": {"score": {}}, "pluginConfig": [{"name": "Other"}, OURS]},
        ],
    )
    assert loaded.configuration.policy.dry_run
    assert loaded.notes == (
        "parallelism is ignored: it is a setting of the scheduler",
        "extenders is ignored: it is a setting of the scheduler",
        "profils is ignored: it is unknown; did you mean profiles?",
        'profiles[0].pluginConfig[0] is ignored: the plugin "NodeResourcesFit" belongs to the scheduler',
        'profiles[0] is ignored: the profile "default-scheduler" has no Rescheduler',
        'profiles[1].pluginConfig[0] is ignored: the plugin "Other" belongs to the scheduler',
        "profiles[1].plugins is ignored: it is a setting of the scheduler",
        'pods of scheduler "mine" are not moved: it is not in knownSchedulers',
    )


def test_notes_go_to_the_log(tmp_path, caplog):
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: 3\n"
    )
    with caplog.at_level(logging.INFO, "rescheduler"):
        load_file(file, BUILT_IN_STRATEGIES)
    assert f"{file}: parallelism is ignored: it is a setting of the scheduler" in caplog.messages


def test_a_file_that_does_not_name_us_has_the_defaults_and_says_so(loading):
    loaded = loading.data(profiles=[])
    assert loaded.configuration == Configuration()
    assert loaded.notes == ("no pluginConfig named Rescheduler: all its args have their defaults",)


@pytest.mark.parametrize("args", [{}, {"args": None}, {"args": {}}])
def test_without_args_they_all_have_their_defaults(loading, args):
    loaded = loading.data(profiles=[{"pluginConfig": [{"name": "Rescheduler", **args}]}])
    assert loaded.configuration == Configuration()
    assert loaded.notes == ()


def test_args_may_carry_a_type_as_the_scheduler_wants_it(loading):
    typed = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "ReschedulerArgs"}
    assert loading.args(**typed, dryRun=True).configuration.policy.dry_run
    (fault,) = loading.arg_faults(kind="OtherArgs")
    assert fault == 'kind: "OtherArgs" is not allowed: ReschedulerArgs, or unset'


@pytest.mark.parametrize(
    ("parts", "fault"),
    [
        ({"apiVersion": "kubescheduler.config.k8s.io/v1beta3"}, "apiVersion: "),
        ({"apiVersion": None}, "apiVersion: missing: kubescheduler.config.k8s.io/v1"),
        ({"kind": "Pod"}, 'kind: "Pod" is not allowed: KubeSchedulerConfiguration'),
        ({"profiles": {}}, "profiles: {} is not allowed: a list"),
        ({"profiles": [3]}, "profiles[0]: 3 is not allowed: a block of settings"),
        ({"profiles": [{"pluginConfig": "x"}]}, 'profiles[0].pluginConfig: "x" is not allowed: a list'),
        ({"profiles": [{"pluginConfig": [[]]}]}, "profiles[0].pluginConfig[0]: [] is not allowed: a block"),
        (
            {"profiles": [{"pluginConfig": [{}]}]},
            "profiles[0].pluginConfig[0].name: missing: the name of a plugin",
        ),
        ({"profiles": [{"pluginConfig": [{"name": "rescheduler"}]}]}, "profiles[0].pluginConfig[0].name: "),
        (
            {"profiles": [{"pluginConfig": [{"name": "Rescheduler", "args": [1]}]}]},
            "profiles[0].pluginConfig[0].args: [1] is not allowed: a block of settings",
        ),
        ({"clientConnection": []}, "clientConnection: [] is not allowed: a block of settings"),
        ({"clientConnection": {"burst": -1}}, "clientConnection.burst: -1 is not allowed: an integer"),
        ({"clientConnection": {"qps": "5"}}, 'clientConnection.qps: "5" is not allowed: a number above 0'),
    ],
)
def test_what_might_be_ours_but_can_not_be_read_is_refused(loading, parts, fault):
    (found,) = loading.faults(loading.data, **parts)
    assert found.startswith(fault)


def test_the_connection_is_read(loading):
    connection = loading.data(
        clientConnection={"kubeconfig": "/etc/k", "qps": 12.5, "burst": 20, "contentType": "application/json"}
    ).configuration.client_connection
    assert (connection.kubeconfig, connection.qps, connection.burst) == ("/etc/k", 12.5, 20)
    assert connection.is_limited


def test_a_negative_rate_is_no_limit(loading):
    connection = loading.data(clientConnection={"qps": -1}).configuration.client_connection
    assert connection.qps == math.inf
    assert not connection.is_limited


def test_zero_and_empty_mean_not_set_in_the_common_blocks_as_in_go(loading):
    loaded = loading.data(
        clientConnection={"acceptContentTypes": "", "kubeconfig": "", "qps": 0, "burst": 0},
        leaderElection={
            "leaderElect": None,
            "leaseDuration": "0s",
            "renewDeadline": "0s",
            "retryPeriod": "0s",
            "resourceLock": "",
            "resourceName": "",
            "resourceNamespace": "",
        },
    )
    assert loaded.configuration == Configuration()


def test_election_can_be_switched_off(loading):
    assert not loading.data(leaderElection={"leaderElect": False}).configuration.leader_election.leader_elect


@pytest.mark.parametrize("namespace", [{}, {"resourceNamespace": "kube-system"}])
def test_the_schedulers_lease_is_never_taken(loading, namespace):
    election = {"leaderElect": True, "resourceLock": "leases", "resourceName": "kube-scheduler", **namespace}
    loaded = loading.data(leaderElection=election)
    ours = loaded.configuration.leader_election
    assert (ours.resource_name, ours.resource_namespace) == ("rescheduler", None)
    assert any(
        note.startswith("leaderElection.resourceName is ignored: kube-scheduler is") for note in loaded.notes
    )


def test_another_lease_can_be_named(loading):
    election = {"resourceName": "rescheduler-scheduler", "resourceNamespace": "kube-system"}
    ours = loading.data(leaderElection=election).configuration.leader_election
    assert (ours.resource_name, ours.resource_namespace) == ("rescheduler-scheduler", "kube-system")


def test_the_built_in_strategies_are_always_known():
    assert known_strategies() >= BUILT_IN_STRATEGIES
