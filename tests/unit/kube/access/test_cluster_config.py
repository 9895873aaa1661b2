"""How the cluster is chosen: kubeconfig files, contexts, and the service account of a pod."""

import base64
from pathlib import Path

import pytest

from rescheduler.kube.access.cluster_config import BadClusterConfig, load_cluster_access

NOWHERE = Path("/nonexistent")


def test_a_named_file_comes_before_everything_else(kubeconfig):
    named = kubeconfig({}, cluster={"server": "https://named"}, file="named")
    other = kubeconfig({}, cluster={"server": "https://other"}, file="other")
    assert load_cluster_access(named, environment={"KUBECONFIG": str(other)}).server == "https://named"


def test_of_several_files_the_first_current_context_counts(kubeconfig):
    """A tool that takes the last one acts on another cluster than kubectl would."""
    first = kubeconfig({}, cluster={"server": "https://first"}, name="first", file="a")
    second = kubeconfig({}, cluster={"server": "https://second"}, name="second", file="b")
    environment = {"KUBECONFIG": f"{first}:{second}"}
    assert load_cluster_access(environment=environment).server == "https://first"
    assert load_cluster_access(context="second", environment=environment).server == "https://second"


def test_of_two_entries_with_one_name_the_first_files_counts(kubeconfig):
    first = kubeconfig({}, cluster={"server": "https://first"}, file="a")
    second = kubeconfig({}, cluster={"server": "https://second"}, file="b")
    assert load_cluster_access(environment={"KUBECONFIG": f"{first}:{second}"}).server == "https://first"


def test_missing_files_among_several_are_passed_over(kubeconfig, tmp_path):
    there = kubeconfig({}, cluster={"server": "https://there"})
    assert (
        load_cluster_access(environment={"KUBECONFIG": f"{tmp_path}/missing:{there}:"}).server
        == "https://there"
    )


def test_if_all_files_of_the_variable_are_missing_it_says_so_and_guesses_nothing(tmp_path):
    with pytest.raises(BadClusterConfig, match=r"\$KUBECONFIG: no such file: /a, /b"):
        load_cluster_access(environment={"KUBECONFIG": "/a:/b", "HOME": str(tmp_path)})


def test_a_named_file_that_is_missing_is_an_error_with_its_path():
    with pytest.raises(BadClusterConfig, match=r"/nonexistent/config: can't be read: No such file"):
        load_cluster_access("/nonexistent/config", environment={})


def test_an_unknown_context_is_answered_with_the_known_ones(kubeconfig):
    with pytest.raises(BadClusterConfig, match=r'context "prod" does not exist. Known contexts: test\.'):
        load_cluster_access(kubeconfig({}), "prod", environment={})


def test_a_context_whose_user_is_missing_is_refused(kubeconfig):
    with pytest.raises(BadClusterConfig, match='names the user "nobody"'):
        load_cluster_access(kubeconfig(context={"user": "nobody"}), environment={})


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param("{", r"invalid YAML: [^\n]* line 2, column 1[^\n]*$", id="broken YAML, in one line"),
        pytest.param("- a list", "must be a mapping", id="a list"),
        pytest.param("", "no current-context is set", id="an empty file"),
        pytest.param(
            "clusters: [nonsense]", r'clusters\[0\] must have a "name"', id="a cluster without a name"
        ),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_refused_with_its_fault(content, complaint, tmp_path):
    (tmp_path / "config").write_text(content)
    with pytest.raises(BadClusterConfig, match=complaint):
        load_cluster_access(tmp_path / "config", environment={})


def test_trusting_everyone_and_a_certificate_authority_exclude_each_other(kubeconfig):
    data = base64.b64encode(b"pem").decode()
    cluster = {"insecure-skip-tls-verify": True, "certificate-authority-data": data}
    with pytest.raises(BadClusterConfig, match="Remove one of them"):
        load_cluster_access(kubeconfig({}, cluster=cluster), environment={})


def test_a_proxy_that_cannot_be_used_is_refused_rather_than_passed_by(kubeconfig):
    with pytest.raises(BadClusterConfig, match="socks5://p"):
        load_cluster_access(kubeconfig({}, cluster={"proxy-url": "socks5://p"}), environment={})


def test_paths_are_relative_to_the_file_they_stand_in(kubeconfig, tmp_path):
    path = kubeconfig({"tokenFile": "token"}, cluster={"certificate-authority": "ca.crt"}, file="deep/config")
    (tmp_path / "deep/ca.crt").write_bytes(b"the authority")
    assert load_cluster_access(path, environment={}).authority == b"the authority"


def test_a_context_without_a_user_is_anonymous(kubeconfig):
    access = load_cluster_access(kubeconfig(), environment={})
    assert access.namespace == "default"


async def test_a_context_says_its_namespace(kubeconfig):
    assert (
        load_cluster_access(kubeconfig({}, context={"namespace": "shop"}), environment={}).namespace == "shop"
    )


def test_whom_the_user_acts_as_goes_into_every_request(kubeconfig):
    user = {"as": "jane", "as-groups": ["dev", "ops"], "as-uid": "7", "as-user-extra": {"reason": ["drill"]}}
    assert load_cluster_access(kubeconfig(user), environment={}).headers == {
        "Impersonate-User": "jane",
        "Impersonate-Uid": "7",
        "Impersonate-Group": ("dev", "ops"),
        "Impersonate-Extra-reason": ("drill",),
    }


@pytest.fixture
def mounted(tmp_path) -> Path:
    """A service account as kubelets mount it."""
    mount = tmp_path / "serviceaccount"
    mount.mkdir()
    (mount / "token").write_text("first")
    (mount / "ca.crt").write_bytes(b"the authority")
    (mount / "namespace").write_text("rescheduler\n")
    return mount


IN_A_POD = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443", "HOME": "/nonexistent"}


async def test_in_a_pod_the_service_account_is_used(mounted):
    access = load_cluster_access(environment=IN_A_POD, service_account=mounted)
    assert access.server == "https://[fd00::1]:443"
    assert access.namespace == "rescheduler"
    assert access.authority == b"the authority"
    assert (await access.credentials.current()).authorization == "Bearer first"


def test_the_variable_comes_before_the_service_account(mounted, kubeconfig):
    environment = IN_A_POD | {"KUBECONFIG": str(kubeconfig({}))}
    assert "context test" in load_cluster_access(environment=environment, service_account=mounted).source


def test_a_context_asked_for_by_name_is_not_looked_for_in_the_service_account(mounted):
    with pytest.raises(BadClusterConfig, match="Use --kubeconfig"):
        load_cluster_access(context="prod", environment=IN_A_POD, service_account=mounted)


def test_outside_a_pod_the_home_directory_comes_last(kubeconfig, tmp_path):
    kubeconfig({}, cluster={"server": "https://home"}, file=".kube/config")
    assert (
        load_cluster_access(environment={"HOME": str(tmp_path)}, service_account=NOWHERE).server
        == "https://home"
    )


def test_with_nothing_to_be_found_it_says_what_to_do(tmp_path):
    with pytest.raises(BadClusterConfig, match=r"\.kube/config: no such file, and this is not a pod\. Use"):
        load_cluster_access(environment={"HOME": str(tmp_path)}, service_account=NOWHERE)
