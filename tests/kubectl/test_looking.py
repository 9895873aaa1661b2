"""kubectl reads the cluster: get, describe, top, wait, and the server's own information."""

import json

import pytest
import yaml

from kubesim.apiserver.metrics_server import MeasuredUsage
from tests.kubectl.objects import ago, deployment, node, pod

pytestmark = pytest.mark.kubectl

GIB = 1024**3


@pytest.fixture
def shop(cluster):
    """Two nodes, three pods."""
    cluster.load(
        node("east", labels={"zone": "e", "node-role.kubernetes.io/worker": ""}),
        node("west", labels={"zone": "w"}),
        pod("web-1", on="east", labels={"app": "web"}),
        pod("web-2", on="west", labels={"app": "web"}),
        pod("waiting", labels={"app": "batch"}),
    )


def test_get_prints_the_columns_of_the_server(kubectl, shop):
    assert kubectl("get pods").splitlines()[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert kubectl.rows("get pod web-1") == [["web-1", "1/1", "Running", "0", "15m"]]


def test_get_nodes_prints_status_roles_and_age(kubectl, shop):
    assert kubectl.rows("get nodes") == [
        ["east", "Ready", "worker", "3d4h", "v1.37.0"],
        ["west", "Ready", "<none>", "3d4h", "v1.37.0"],
    ]


def test_get_wide_prints_where_pods_run(kubectl, shop):
    header, row = kubectl("get pods web-2 -o wide").splitlines()

    assert header.split()[5:] == ["IP", "NODE", "NOMINATED", "NODE", "READINESS", "GATES"]
    assert row.split()[5:7] == ["10.1.0.1", "west"]


def test_get_prints_whole_objects_as_yaml(kubectl, shop):
    shown = yaml.safe_load(kubectl("get pod web-1 -o yaml"))

    assert (shown["apiVersion"], shown["kind"]) == ("v1", "Pod")
    assert shown["spec"]["nodeName"] == "east"


def test_get_prints_lists_as_json(kubectl, shop):
    shown = json.loads(kubectl("get pods -o json"))

    assert shown["kind"] == "List"
    assert {item["kind"] for item in shown["items"]} == {"Pod"}


def test_get_prints_names_and_single_fields(kubectl, shop):
    assert kubectl("get pods -o name").splitlines() == ["pod/waiting", "pod/web-1", "pod/web-2"]
    assert kubectl("get pod web-1 -o jsonpath={.spec.nodeName}") == "east"
    columns = "-o custom-columns=POD:.metadata.name,ON:.spec.nodeName"
    assert kubectl.rows(f"get pods {columns}") == [
        ["waiting", "<none>"],
        ["web-1", "east"],
        ["web-2", "west"],
    ]


def test_get_chooses_by_labels(kubectl, shop):
    assert kubectl("get pods -l app=web -o name").split() == ["pod/web-1", "pod/web-2"]
    assert kubectl("get pods -l 'app notin (web)' -o name").split() == ["pod/waiting"]
    assert kubectl("get nodes -l zone=w -o name").split() == ["node/west"]


def test_get_chooses_by_fields(kubectl, shop):
    assert kubectl("get pods --field-selector spec.nodeName=east -o name").split() == ["pod/web-1"]
    assert kubectl("get pods --field-selector status.phase!=Running -o name").split() == ["pod/waiting"]


def test_get_shows_labels_as_columns(kubectl, shop):
    assert kubectl.rows("get pods -L app --sort-by=.metadata.name")[0][-1] == "batch"
    assert kubectl.rows("get pods web-1 --show-labels")[0][-1] == "app=web"


def test_get_sorts_by_any_field(kubectl, cluster):
    for name, cpu in (("a", "300m"), ("b", "100m"), ("c", "200m")):
        cluster.load(pod(name, cpu=cpu))

    sort_by = "--sort-by='{.spec.containers[0].resources.requests.cpu}'"
    assert [row[0] for row in kubectl.rows(f"get pods {sort_by}")] == ["b", "c", "a"]


def test_get_shows_all_namespaces(kubectl, shop):
    assert kubectl.rows("get pods -A")[0][:2] == ["default", "waiting"]


def test_get_shows_several_kinds_at_once(kubectl, shop):
    kubectl.create(deployment("web"))

    shown = kubectl("get all,nodes -o name").split()

    assert {"pod/web-1", "deployment.apps/web", "node/east"} <= set(shown)


def test_get_says_when_there_is_nothing(kubectl):
    assert 'pods "nobody" not found' in kubectl.refused("get pod nobody")
    assert 'the server doesn\'t have a resource type "nonsense"' in kubectl.refused("get nonsense")


def test_get_pages_through_long_lists(kubectl, cluster):
    cluster.load(*(pod(f"pod-{number:03}") for number in range(60)))

    assert len(kubectl.rows("get pods --chunk-size=25")) == 60


def test_get_watch_shows_what_happens_next(kubectl, cluster, shop):
    watching = kubectl.start("get pods -l app=web --watch")
    try:
        lines = iter(watching.stdout.readline, "")
        assert [next(lines).split()[0] for _ in range(3)] == ["NAME", "web-1", "web-2"]
        kubectl("label pod waiting app=web --overwrite")
        kubectl("delete pod web-1 --now --wait=false")
        assert next(lines).split()[:3] == ["waiting", "0/1", "Pending"]
        assert next(lines).split()[:3] == ["web-1", "1/1", "Terminating"]
    finally:
        watching.kill()
        watching.communicate()


def test_describe_a_pod_shows_its_story(kubectl, cluster, shop):
    cluster.load(event("web-1", reason="Started", message="Started container app"))

    reported = kubectl("describe pod web-1")

    assert "app=web" in reported
    assert "east/" in reported
    assert "Started container app" in reported


def test_describe_a_node_sums_up_its_pods(kubectl, shop):
    reported = kubectl("describe node east")

    assert "Roles:              worker" in reported
    assert "(1 in total)" in reported
    assert "cpu                100m (2%)" in reported


def test_describe_a_deployment_shows_its_strategy(kubectl):
    kubectl.create(deployment("web", replicas=4))

    reported = kubectl("describe deployment web")

    assert "Replicas:               4 desired" in reported
    assert "RollingUpdateStrategy:  25% max unavailable, 25% max surge" in reported


@pytest.mark.parametrize(
    "kind", ["namespace/default", "pdb/keep", "configmap/settings", "service/front", "priorityclass/high"]
)
def test_describe_works_for_other_kinds_too(kubectl, kind):
    kubectl("create pdb keep --selector=app=web --min-available=1")
    kubectl("create configmap settings --from-literal=a=b")
    kubectl("create service clusterip front --tcp=80:8080")
    kubectl("create priorityclass high --value=10")

    assert kubectl(f"describe {kind}").startswith("Name:")


def event(about, *, reason, message):
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{about}.1", "namespace": "default"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": about,
            "namespace": "default",
            "uid": f"uid-of-{about}",
        },
        "type": "Normal",
        "reason": reason,
        "message": message,
        "firstTimestamp": ago(minutes=2),
        "lastTimestamp": ago(minutes=2),
        "count": 1,
        "source": {"component": "kubelet"},
    }


def test_get_events_and_events_show_what_happened(kubectl, cluster, shop):
    cluster.load(event("web-1", reason="Started", message="Started container app"))

    assert kubectl.rows("get events")[0][1:4] == ["Normal", "Started", "pod/web-1"]
    assert "Started container app" in kubectl("events --for pod/web-1")


def test_top_shows_what_nodes_use(kubectl, cluster, shop):
    cluster.measure("east", MeasuredUsage(cpu_cores=1, memory_bytes=2 * GIB))
    cluster.measure("west", MeasuredUsage(cpu_cores=0.5, memory_bytes=GIB))

    assert kubectl.rows("top nodes") == [
        ["east", "1000m", "25%", "2048Mi", "25%"],
        ["west", "500m", "12%", "1024Mi", "12%"],
    ]


def test_top_shows_what_pods_use(kubectl, cluster, shop):
    cluster.measure("web-1", MeasuredUsage(cpu_cores=0.02, memory_bytes=GIB))

    assert kubectl.rows("top pods -l app=web") == [["web-1", "20m", "1024Mi"]]
    assert kubectl.rows("top pod web-1 --containers") == [["web-1", "app", "20m", "1024Mi"]]


def test_wait_ends_when_the_condition_holds(kubectl, shop):
    assert kubectl("wait pod/web-1 --for=condition=Ready --timeout=5s") == "pod/web-1 condition met\n"
    assert "timed out" in kubectl.refused("wait pod/waiting --for=condition=Ready --timeout=1s")
    assert "met" in kubectl(
        "wait node/east --for=jsonpath='{.status.nodeInfo.kubeletVersion}'=v1.37.0 --timeout=5s"
    )


def test_version_names_both_sides(kubectl):
    reported = kubectl("version", warns=True)  # if the two are of very different age

    assert "Client Version: v1." in reported
    assert "Server Version: v1.37.0+simulator" in reported


def test_api_resources_lists_names_short_names_and_scope(kubectl):
    rows = kubectl.rows("api-resources")

    assert ["deployments", "deploy", "apps/v1", "true", "Deployment"] in rows
    assert ["nodes", "no", "v1", "false", "Node"] in rows
    assert "pods" in kubectl("api-resources --api-group= -o name").split()


def test_api_versions_lists_groups(kubectl):
    assert {"v1", "apps/v1", "policy/v1"} <= set(kubectl("api-versions").split())


def test_cluster_info_finds_the_server(kubectl):
    assert "is running at" in kubectl("cluster-info")


def test_explain_shows_fields_and_their_types(kubectl):
    assert "KIND:       Pod" in kubectl("explain pods")
    assert "terminationGracePeriodSeconds\t<integer>" in kubectl("explain deployment.spec.template.spec")
    assert 'field "nonsense" does not exist' in kubectl.refused("explain pod.spec.nonsense")


def test_auth_allows_everything(kubectl):
    assert kubectl("auth can-i delete pods").strip() == "yes"
