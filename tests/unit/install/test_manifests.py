"""The manifests are complete and consistent, and ask for no more than needed."""

from collections import Counter

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from kubesim.apiserver.kind_registry import BUILT_IN
from rescheduler.api.well_known_names import INSTALL_ID, SHARED_INSTALL_ID
from rescheduler.cli import main
from rescheduler.config.config_loader import load_content
from rescheduler.config.config_validation import known_strategies
from rescheduler.config.policy import Policy
from rescheduler.install import rbac
from rescheduler.install.install_options import (
    PAGE_PORT,
    WEB,
    AdmissionPolicies,
    AffinityValues,
    DaemonValues,
    NetworkPolicies,
    Options,
    PrometheusRule,
    WebhookValues,
    WebValues,
)
from rescheduler.install.leftovers import inventory
from rescheduler.install.manifests import install_manifests
from rescheduler.kube.api_resources import key_of


def of_kind(kind, items):
    return [item for item in items if item["kind"] == kind]


def configuration_of(items):
    """The ConfigMap with the configuration. That of the webhook has no data."""
    (found,) = (item for item in of_kind("ConfigMap", items) if "data" in item)
    return found


def pods(items):
    return {item["metadata"]["name"]: item["spec"]["template"] for item in of_kind("Deployment", items)}


def test_what_others_need_comes_before_those_who_need_it():
    kinds = [item["kind"] for item in install_manifests()]
    assert kinds[0] == "CustomResourceDefinition"
    assert kinds.index("ServiceAccount") < kinds.index("Deployment")
    assert kinds.index("ConfigMap") < kinds.index("Deployment")


@pytest.mark.parametrize("name", ["Bad_NS", "", "-a", "a.b", "a" * 64])
def test_a_namespace_that_cannot_be_is_refused_with_what_is_allowed(name):
    refused = CliRunner().invoke(main, ["manifests", "--namespace", name])
    assert refused.exit_code == 2
    assert f'"{name}" is not allowed' in refused.stderr
    assert "lower-case letters, digits and '-', at most 63" in refused.stderr
    assert CliRunner().invoke(main, ["manifests", "--namespace", "a" * 63]).exit_code == 0


def test_every_object_carries_the_install_id():
    """It is in our namespace, or has the namespace in its name."""
    for item in install_manifests(namespace="elsewhere", create_namespace=True):
        about = item["metadata"]
        assert about["labels"]["app.kubernetes.io/name"] == "rescheduler"
        if item["kind"] == "CustomResourceDefinition":
            assert about["labels"][INSTALL_ID] == SHARED_INSTALL_ID
            continue
        assert about["labels"][INSTALL_ID] == "elsewhere"
        if item["kind"] != "Namespace" and "namespace" not in about:
            assert about["name"].endswith(".elsewhere")
            assert about["name"].startswith("rescheduler")
    for pod in pods(install_manifests(namespace="elsewhere")).values():
        assert pod["metadata"]["labels"][INSTALL_ID] == "elsewhere"


def test_installations_in_two_namespaces_have_no_object_in_common_but_the_definition():
    def names(namespace):
        return {
            (item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"])
            for item in install_manifests(namespace=namespace)
        }

    assert names("one") & names("two") == {
        ("CustomResourceDefinition", None, "podmigrations.rescheduler.dev")
    }


def test_every_object_is_removed_by_uninstall():
    """Each kind is listed under the name by which it is served."""
    removed = {(each.resource.kind, each.key) for each in inventory("elsewhere")}
    for item in install_manifests(namespace="elsewhere"):
        key = key_of(item["metadata"].get("namespace", ""), item["metadata"]["name"])
        assert (item["kind"], key) in removed or item["kind"] == "CustomResourceDefinition"
    served = {(kind.api_version, kind.name): kind.plural for kind in BUILT_IN}
    for each in inventory("elsewhere"):
        resource = each.resource
        assert served.get((resource.api_version, resource.kind), resource.plural) == resource.plural


def test_what_is_removed_last_is_that_by_which_the_installation_is_found():
    kinds = [each.resource.kind for each in inventory("elsewhere")]
    assert kinds[:2] == ["Deployment", "Deployment"]
    assert inventory("elsewhere")[-1].name == "ClusterRoleBinding rescheduler.elsewhere"


def test_the_namespace_is_printed_only_on_request():
    """It enforces no PodSecurity level on what is in it: `kubectl apply` changes a namespace that exists
    already."""
    assert of_kind("Namespace", install_manifests()) == []
    (namespace,) = of_kind("Namespace", install_manifests(create_namespace=True))
    assert namespace["metadata"]["labels"].keys() == {"app.kubernetes.io/name", INSTALL_ID}
    assert CliRunner().invoke(main, ["manifests"]).stdout.count("kind: Namespace") == 0
    assert CliRunner().invoke(main, ["manifests", "--create-namespace"]).stdout.count("kind: Namespace") == 1


def test_what_binds_names_what_is_installed():
    items = install_manifests(namespace="elsewhere")
    names = {(item["kind"], item["metadata"]["name"]) for item in items}
    for item in items:
        if "roleRef" in item:
            assert (item["roleRef"]["kind"], item["roleRef"]["name"]) in names


def test_accounts_are_bound_where_they_are():
    bindings = [item for item in install_manifests(namespace="elsewhere") if "subjects" in item]
    assert {subject["namespace"] for item in bindings for subject in item["subjects"]} == {"elsewhere"}


@pytest.mark.parametrize("kind", ["Service", "PodDisruptionBudget", "Deployment"])
def test_what_selects_pods_selects_those_of_its_own_program(kind):
    items = install_manifests()
    for item in of_kind(kind, items):
        selector = item["spec"]["selector"]
        wanted = selector.get("matchLabels", selector)
        found = [
            name for name, pod in pods(items).items() if wanted.items() <= pod["metadata"]["labels"].items()
        ]
        assert found == [item["metadata"]["name"]]


def test_pods_run_unprivileged_on_a_filesystem_that_they_cannot_write():
    for pod in pods(install_manifests()).values():
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


def test_each_program_has_two_spread_pods():
    """One pod at a time may be unavailable. Zones only as a preferred anti-affinity: see
    tests/e2e/installed/test_replica_spread.py."""
    items = install_manifests()
    assert [item["spec"]["replicas"] for item in of_kind("Deployment", items)] == [2, 2]
    for pod in pods(items).values():
        (spread,) = pod["spec"]["topologySpreadConstraints"]
        assert (spread["topologyKey"], spread["whenUnsatisfiable"]) == (
            "kubernetes.io/hostname",
            "ScheduleAnyway",
        )
        anti_affinity = pod["spec"]["affinity"]["podAntiAffinity"]
        assert anti_affinity.keys() == {"preferredDuringSchedulingIgnoredDuringExecution"}
        terms = anti_affinity["preferredDuringSchedulingIgnoredDuringExecution"]
        assert [each["podAffinityTerm"]["topologyKey"] for each in terms] == [
            "kubernetes.io/hostname",
            "topology.kubernetes.io/zone",
        ]
    assert [item["spec"]["maxUnavailable"] for item in of_kind("PodDisruptionBudget", items)] == [1, 1]


@pytest.mark.parametrize(
    "table",
    [
        "DAEMON_CLUSTER_GRANTS",
        "DAEMON_NAMESPACE_GRANTS",
        "WEB_GRANTS",
        "WEBHOOK_CLUSTER_GRANTS",
        "WEBHOOK_NAMESPACE_GRANTS",
    ],
)
def test_nothing_is_granted_twice(table):
    granted = Counter(
        (grant.group, grant.resource, grant.names, verb)
        for grant in getattr(rbac, table)
        for verb in grant.verbs
    )
    assert [each for each, times in granted.items() if times > 1] == []


def test_no_rule_grants_everything_of_anything():
    for item in install_manifests():
        for rule in item.get("rules", ()):
            assert "*" not in (*rule["verbs"], *rule["resources"], *rule["apiGroups"])


def test_secrets_are_read_by_name_only():
    for item in install_manifests():
        for rule in item.get("rules", ()):
            if "secrets" in rule["resources"]:
                assert item["kind"] == "Role"
                assert rule["verbs"] == ["create"] or rule["resourceNames"] == ["rescheduler-webhook-cert"]


def test_without_the_webhook_nothing_of_it_is_left():
    items = install_manifests(Options(webhook=WebhookValues(enabled=False)))
    # That policy keeps the daemon from the webhook's account, whether there is one or not.
    others = [item for item in items if not item["metadata"]["name"].startswith("rescheduler-create-pods")]
    assert "webhook" not in yaml.safe_dump(
        [item for item in others if item["kind"] != "CustomResourceDefinition"]
    ).replace("mutatingwebhookconfigurations", "")


def test_pods_of_the_webhook_are_evicted_because_no_other_account_may_copy_them():
    asked = {
        item["metadata"]["name"]: item["metadata"].get("annotations", {}).get("rescheduler.dev/handover")
        for item in of_kind("Deployment", install_manifests())
    }
    assert asked == {"rescheduler": None, "rescheduler-webhook": "Evict"}


def test_reviews_of_viewers_are_granted_only_with_the_page():
    reviews = {"tokenreviews", "subjectaccessreviews"}
    for enabled in (True, False):
        items = install_manifests(Options(web=WebValues(enabled=enabled)))
        granted = {name for item in items for rule in item.get("rules", ()) for name in rule["resources"]}
        assert granted & reviews == (reviews if enabled else set())


def test_the_page_is_served_outside_of_its_pod_only_with_a_certificate():
    """By default it listens on loopback: no Service, no open port, no argument says otherwise."""
    by_default = yaml.safe_dump(install_manifests())
    assert "--web-host" not in by_default
    assert str(PAGE_PORT) not in by_default
    peers = [{"namespaceSelector": {"matchLabels": {"team": "platform"}}}]
    chosen = Options(
        web=WebValues(tls_secret="page-tls", hosts="page.example,other.example"),
        network_policies=NetworkPolicies(web_from=peers),
    )
    items = install_manifests(chosen)
    service = next(item for item in of_kind("Service", items) if item["metadata"]["name"] == WEB)
    pod = pods(items)["rescheduler"]
    (container,) = pod["spec"]["containers"]
    assert service["spec"]["ports"][0]["targetPort"] in {port["name"] for port in container["ports"]}
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert container["args"][-6:-1] == [
        "--web-host=",
        "--web-certificate",
        "/etc/rescheduler-web/tls.crt",
        "/etc/rescheduler-web/tls.key",
        "--web-allowed-host=page.example,other.example",
    ]
    policy = next(item for item in of_kind("NetworkPolicy", items) if item["metadata"]["name"] == WEB)
    assert policy["spec"]["ingress"] == [{"ports": [{"protocol": "TCP", "port": PAGE_PORT}], "from": peers}]
    assert "page-tls" in str(pod["spec"]["volumes"])
    without = install_manifests(Options(web=WebValues(enabled=False, tls_secret="page-tls")))
    assert WEB not in {item["metadata"]["name"].partition(".")[0] for item in without}
    assert "page-tls" not in yaml.safe_dump(without)


def test_the_default_configuration_is_one_with_which_the_daemon_starts():
    found = configuration_of(install_manifests())
    loaded = load_content(found["data"]["rescheduler.yaml"].encode(), known_strategies(), source="it")
    assert loaded.notes == ()


def policy_of(options):
    found = configuration_of(install_manifests(options))
    text = found["data"]["rescheduler.yaml"].encode()
    return load_content(text, known_strategies(), source="it").configuration.policy


def test_what_is_installed_first_shows_what_it_would_do():
    """One value switches execution on; the default of the arg itself stays false."""
    assert policy_of(Options()).dry_run
    assert policy_of(Options(args={"cpuThreshold": 70})).dry_run
    assert not policy_of(Options(dry_run=False)).dry_run
    assert not policy_of(Options(args={"dryRun": False})).dry_run
    assert not Policy().dry_run


def converted_policy(folder, strategies, *, is_dry_run):
    path = folder / "rescheduler.yaml"
    args = {"enabledStrategies": strategies} | ({"dryRun": True} if is_dry_run else {})
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "profiles": [{"pluginConfig": [{"name": "Rescheduler", "args": args}]}],
            }
        )
    )
    return str(path)


def test_a_note_says_that_the_installed_file_lets_the_daemon_move_pods(tmp_path):
    """Without --config, what is installed is a dry run, so users of a file may expect that, too."""
    path = converted_policy(tmp_path, ["PodLifeTime"], is_dry_run=False)
    done = CliRunner().invoke(main, ["manifests", "--config", path])
    assert done.exit_code == 0
    assert " ".join(done.stderr.split()) == f"note: the daemon will move pods: {path} has no dryRun: true"


def test_a_file_with_a_dry_run_is_installed_without_a_note(tmp_path):
    path = converted_policy(tmp_path, ["PodLifeTime"], is_dry_run=True)
    assert CliRunner().invoke(main, ["manifests", "--config", path]).stderr == ""


def test_args_become_part_of_the_configuration():
    found = configuration_of(install_manifests(Options(args={"cpuThreshold": 70})))
    loaded = load_content(found["data"]["rescheduler.yaml"].encode(), known_strategies(), source="it")
    assert loaded.configuration.policy.cpu_threshold == 70


def test_affinity_is_added_to_the_one_that_spreads_replicas():
    """And nothing that is empty is written: `kubectl diff` shows only what was chosen."""
    terms = {"preferredDuringSchedulingIgnoredDuringExecution": []}
    for pod in pods(install_manifests(Options(affinity=AffinityValues(node_affinity=terms)))).values():
        assert set(pod["spec"]["affinity"]) == {"nodeAffinity", "podAntiAffinity"}
    for pod in pods(install_manifests()).values():
        assert set(pod["spec"]["affinity"]) == {"podAntiAffinity"}
        assert set(pod["metadata"]) == {"labels"}


def test_our_alerts_become_a_prometheus_rule():
    assert of_kind("PrometheusRule", install_manifests()) == []
    labels = {"release": "p", INSTALL_ID: "forged"}
    chosen = Options(prometheus_rule=PrometheusRule(enabled=True, labels=labels))
    (rule,) = of_kind("PrometheusRule", install_manifests(chosen))
    assert rule["metadata"]["labels"]["release"] == "p"
    assert rule["metadata"]["labels"][INSTALL_ID] == "rescheduler"
    assert "ReschedulerNoLeader" in {each["alert"] for each in rule["spec"]["groups"][0]["rules"]}
    assert any(each.resource.kind == "PrometheusRule" for each in inventory("rescheduler"))


@pytest.mark.parametrize(
    ("options", "restricted"),
    [
        pytest.param(Options(), True, id="with policies"),
        pytest.param(Options(admission_policies=AdmissionPolicies(enabled=False)), False, id="without"),
        pytest.param(Options(args={"restrictedCopies": False}), False, id="as args say"),
    ],
)
def test_the_configuration_says_whether_copies_are_restricted(options, restricted):
    found = configuration_of(install_manifests(options))
    loaded = load_content(found["data"]["rescheduler.yaml"].encode(), known_strategies(), source="it")
    assert loaded.configuration.policy.restricted_copies is restricted


def test_what_is_chosen_arrives_in_all_pods_and_what_is_not_is_not_said():
    chosen = Options(node_selector={"pool": "system"}, log_level="debug", daemon=DaemonValues(replicas=3))
    for pod in pods(install_manifests(chosen)).values():
        assert pod["spec"]["nodeSelector"] == {"pool": "system"}
        assert "tolerations" not in pod["spec"]
        assert "--log-level=debug" in pod["spec"]["containers"][0]["args"]
    assert pods(install_manifests())["rescheduler"]["spec"].get("nodeSelector") is None


def test_the_webhook_registers_itself_unless_only_schedulers_are_to_ask_it():
    def arguments(options):
        return pods(install_manifests(options))["rescheduler-webhook"]["spec"]["containers"][0]["args"]

    assert "--extender-only" not in arguments(Options())
    assert "--extender-only" in arguments(Options(webhook=WebhookValues(extender_only=True)))


def test_unknown_values_are_refused():
    with pytest.raises(msgspec.ValidationError, match="unknown field `dameon`"):
        msgspec.convert({"dameon": {}}, Options)


# -- network policies


def test_only_the_ports_that_a_program_serves_can_be_reached():
    items = install_manifests()
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
    items = install_manifests()
    for service in of_kind("Service", items):
        pod = pods(items)[service["metadata"]["name"]]
        ports = {each["name"] for each in pod["spec"]["containers"][0]["ports"]}
        assert {each["targetPort"] for each in service["spec"]["ports"]} == ports


def test_who_may_read_metrics_can_be_chosen_and_policies_be_left_out():
    peers = [{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}]
    chosen = install_manifests(Options(network_policies=NetworkPolicies(metrics_from=peers)))
    daemon, webhook = of_kind("NetworkPolicy", chosen)
    assert daemon["spec"]["ingress"][0]["from"] == peers
    assert "from" not in webhook["spec"]["ingress"][0], "API servers are no pods"
    assert not of_kind(
        "NetworkPolicy", install_manifests(Options(network_policies=NetworkPolicies(enabled=False)))
    )
    without = install_manifests(Options(webhook=WebhookValues(enabled=False)))
    assert len(of_kind("NetworkPolicy", without)) == 1


def test_objects_of_other_components_keep_their_names_in_roles():
    """Our own cluster-scoped objects carry the namespace in their names; the cluster autoscaler's do not."""
    (daemon,) = [
        item
        for item in of_kind("ClusterRole", install_manifests(namespace="infra"))
        if item["metadata"]["name"] == "rescheduler.infra"
    ]
    named = [name for rule in daemon["rules"] for name in rule.get("resourceNames", ())]
    assert named == ["cluster-autoscaler-status"]
