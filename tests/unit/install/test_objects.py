"""What is installed: complete, consistent in itself, and asking for no more than it needs."""

from collections import Counter

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from rescheduler.cli import main
from rescheduler.config.loading import load_content
from rescheduler.config.strategies import known_strategies
from rescheduler.install import grants
from rescheduler.install.objects import installed
from rescheduler.install.options import Daemon, NetworkPolicies, Options, Webhook

CLUSTER_SCOPED = {
    "Namespace",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
}


def of_kind(kind, items):
    return [item for item in items if item["kind"] == kind]


def pods(items):
    return {item["metadata"]["name"]: item["spec"]["template"] for item in of_kind("Deployment", items)}


def test_what_others_need_comes_before_those_who_need_it():
    kinds = [item["kind"] for item in installed()]
    assert kinds[:2] == ["Namespace", "CustomResourceDefinition"]
    assert kinds.index("ServiceAccount") < kinds.index("Deployment")
    assert kinds.index("ConfigMap") < kinds.index("Deployment")


@pytest.mark.parametrize("name", ["Bad_NS", "", "-a", "a.b", "a" * 64])
def test_a_namespace_that_cannot_be_is_refused_with_what_is_allowed(name):
    refused = CliRunner().invoke(main, ["manifests", "--namespace", name])
    assert refused.exit_code == 2
    assert f'"{name}" is not allowed' in refused.stderr
    assert "lower-case letters, digits and '-', at most 63" in refused.stderr
    assert CliRunner().invoke(main, ["manifests", "--namespace", "a" * 63]).exit_code == 0


def test_every_object_is_known_by_our_name_and_stands_in_our_namespace():
    for item in installed(namespace="elsewhere"):
        assert item["metadata"]["labels"]["app.kubernetes.io/name"] == "rescheduler"
        if item["kind"] not in CLUSTER_SCOPED:
            assert item["metadata"]["namespace"] == "elsewhere"
    bindings = [item for item in installed(namespace="elsewhere") if item["kind"].endswith("Binding")]
    assert {subject["namespace"] for item in bindings for subject in item["subjects"]} == {"elsewhere"}


@pytest.mark.parametrize("kind", ["Service", "PodDisruptionBudget", "Deployment"])
def test_what_selects_pods_selects_those_of_its_own_program(kind):
    items = installed()
    for item in of_kind(kind, items):
        selector = item["spec"]["selector"]
        wanted = selector.get("matchLabels", selector)
        found = [
            name for name, pod in pods(items).items() if wanted.items() <= pod["metadata"]["labels"].items()
        ]
        assert found == [item["metadata"]["name"]]


def test_pods_run_as_nobody_on_a_filesystem_that_they_cannot_write():
    for pod in pods(installed()).values():
        spec = pod["spec"]
        (container,) = spec["containers"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {mount["name"] for mount in container["volumeMounts"]} == {
            volume["name"] for volume in spec["volumes"]
        }


def test_each_program_has_two_pods_spread_over_nodes_and_zones_with_one_gone_at_a_time():
    items = installed()
    assert [item["spec"]["replicas"] for item in of_kind("Deployment", items)] == [2, 2]
    for pod in pods(items).values():
        spread = pod["spec"]["topologySpreadConstraints"]
        assert [each["topologyKey"] for each in spread] == [
            "kubernetes.io/hostname",
            "topology.kubernetes.io/zone",
        ]
    assert [item["spec"]["maxUnavailable"] for item in of_kind("PodDisruptionBudget", items)] == [1, 1]


@pytest.mark.parametrize(
    "table", ["DAEMON_EVERYWHERE", "DAEMON_AT_HOME", "WEBHOOK_EVERYWHERE", "WEBHOOK_AT_HOME"]
)
def test_nothing_is_granted_twice(table):
    granted = Counter(
        (grant.group, grant.resource, grant.names, verb)
        for grant in getattr(grants, table)
        for verb in grant.verbs
    )
    assert [each for each, times in granted.items() if times > 1] == []


def test_no_rule_grants_everything_of_anything():
    for item in installed():
        for rule in item.get("rules", ()):
            assert "*" not in (*rule["verbs"], *rule["resources"], *rule["apiGroups"])


def test_secrets_are_read_by_name_only():
    for item in installed():
        for rule in item.get("rules", ()):
            if "secrets" in rule["resources"]:
                assert item["kind"] == "Role"
                assert rule["verbs"] == ["create"] or rule["resourceNames"] == ["rescheduler-webhook-cert"]


def test_without_the_webhook_nothing_of_it_is_left():
    items = installed(Options(webhook=Webhook(enabled=False)))
    assert "webhook" not in yaml.safe_dump(
        [item for item in items if item["kind"] != "CustomResourceDefinition"]
    ).replace("mutatingwebhookconfigurations", "")


def test_the_default_configuration_is_one_with_which_the_daemon_starts():
    (found,) = of_kind("ConfigMap", installed())
    loaded = load_content(found["data"]["rescheduler.yaml"].encode(), known_strategies(), source="it")
    assert loaded.notes == ()


def test_args_become_part_of_the_configuration():
    (found,) = of_kind("ConfigMap", installed(Options(args={"cpuThreshold": 70})))
    loaded = load_content(found["data"]["rescheduler.yaml"].encode(), known_strategies(), source="it")
    assert loaded.configuration.policy.cpu_threshold == 70


def test_what_is_chosen_arrives_in_all_pods_and_what_is_not_is_not_said():
    chosen = Options(node_selector={"pool": "system"}, log_level="debug", daemon=Daemon(replicas=3))
    for pod in pods(installed(chosen)).values():
        assert pod["spec"]["nodeSelector"] == {"pool": "system"}
        assert "tolerations" not in pod["spec"]
        assert "--log-level=debug" in pod["spec"]["containers"][0]["args"]
    assert pods(installed())["rescheduler"]["spec"].get("nodeSelector") is None


def test_the_webhook_registers_itself_unless_only_schedulers_are_to_ask_it():
    def arguments(options):
        return pods(installed(options))["rescheduler-webhook"]["spec"]["containers"][0]["args"]

    assert "--extender-only" not in arguments(Options())
    assert "--extender-only" in arguments(Options(webhook=Webhook(extender_only=True)))


def test_values_that_nobody_knows_are_refused():
    with pytest.raises(msgspec.ValidationError, match="unknown field `dameon`"):
        msgspec.convert({"dameon": {}}, Options)


# -- network policies


def test_only_the_ports_that_a_program_serves_can_be_reached():
    items = installed()
    policies = of_kind("NetworkPolicy", items)
    assert [each["metadata"]["name"] for each in policies] == ["rescheduler", "rescheduler-webhook"]
    for policy in policies:
        pod = pods(items)[policy["metadata"]["name"]]
        assert policy["spec"]["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
        served = {port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]}
        (rule,) = policy["spec"]["ingress"]
        assert {each["port"] for each in rule["ports"]} == served
        assert policy["spec"]["policyTypes"] == ["Ingress"]


def test_what_a_service_leads_to_is_a_port_of_its_pods():
    items = installed()
    for service in of_kind("Service", items):
        pod = pods(items)[service["metadata"]["name"]]
        ports = {each["name"] for each in pod["spec"]["containers"][0]["ports"]}
        assert {each["targetPort"] for each in service["spec"]["ports"]} == ports


def test_who_may_read_metrics_can_be_chosen_and_policies_be_left_out():
    peers = [{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}]
    chosen = installed(Options(network_policies=NetworkPolicies(metrics_from=peers)))
    daemon, webhook = of_kind("NetworkPolicy", chosen)
    assert daemon["spec"]["ingress"][0]["from"] == peers
    assert "from" not in webhook["spec"]["ingress"][0], "API servers are no pods"
    assert not of_kind("NetworkPolicy", installed(Options(network_policies=NetworkPolicies(enabled=False))))
    without = installed(Options(webhook=Webhook(enabled=False)))
    assert len(of_kind("NetworkPolicy", without)) == 1
