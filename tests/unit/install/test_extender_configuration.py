"""The scheduler configuration for the extender. A real kube-scheduler loads it in tests/stories/steering."""

import pytest
import yaml
from click.testing import CliRunner

from rescheduler.cli import main
from rescheduler.install.manifests import install_manifests
from rescheduler.steering.steering_server import FILTER_PATH, PRIORITIZE_PATH
from rescheduler.steering.webhook.webhook_configurations import ServiceAddress


def printed(*arguments: str):
    done = CliRunner().invoke(main, ["manifests", *arguments])
    assert done.exit_code == 0, done.output
    return yaml.safe_load(done.stdout)


def test_it_blocks_no_pod_and_has_a_short_timeout():
    (extender,) = printed("--extender")["extenders"]
    assert extender["ignorable"] is True
    assert extender["httpTimeout"] == "1s"
    assert extender["nodeCacheCapable"] is True


def test_it_leads_to_where_we_answer_by_a_name_that_our_certificate_is_for():
    (extender,) = printed("--extender")["extenders"]
    prefix = extender["urlPrefix"]
    host = ServiceAddress("rescheduler", "rescheduler-webhook").names[2]
    (service,) = (
        item
        for item in install_manifests()
        if item["kind"] == "Service" and item["metadata"]["name"] == "rescheduler-webhook"
    )
    port = next(each["port"] for each in service["spec"]["ports"] if each["name"] == "extender")
    assert f"{prefix}/{extender['filterVerb']}" == f"https://{host}:{port}{FILTER_PATH}"
    assert f"{prefix}/{extender['prioritizeVerb']}" == f"https://{host}:{port}{PRIORITIZE_PATH}"
    assert extender["enableHTTPS"] is True
    assert extender["tlsConfig"]["serverName"] == host
    assert extender["tlsConfig"]["caFile"]


def test_it_has_what_the_extender_expects_of_a_scheduler():
    (extender,) = printed("--extender")["extenders"]
    assert extender["tlsConfig"]["certFile"] == "/etc/kubernetes/rescheduler/client.crt"
    assert extender["tlsConfig"]["keyFile"] == "/etc/kubernetes/rescheduler/client.key"
    assert "insecure" not in extender["tlsConfig"]


@pytest.mark.parametrize(
    ("said", "profiles"),
    [
        pytest.param("--extender", ["default-scheduler", "rescheduler-scheduler"], id="beside, if not said"),
        pytest.param("--extender=beside", ["default-scheduler", "rescheduler-scheduler"], id="beside"),
        pytest.param("--extender=instead", ["rescheduler-scheduler"], id="instead"),
    ],
)
def test_the_profile_stands_beside_the_default_one_or_instead_of_it(said: str, profiles: list[str]):
    assert [each["schedulerName"] for each in printed(said)["profiles"]] == profiles


def test_a_second_scheduler_has_a_lease_of_its_own():
    assert "leaderElection" not in printed("--extender")
    assert printed("--extender=instead")["leaderElection"]["resourceName"] == "rescheduler-scheduler"
