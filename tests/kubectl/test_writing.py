"""kubectl creates and changes objects: create, apply, patch, label, annotate, replace, scale, diff."""

import json

import pytest
import yaml

from tests.kubectl.objects import deployment, node, pod

pytestmark = pytest.mark.kubectl


def manifest(*objects):
    return yaml.safe_dump_all(objects)


@pytest.mark.parametrize(
    ("line", "made"),
    [
        ("create namespace shop", "namespace/shop"),
        ("create deployment web --image=example/app:1 --replicas=3", "deployment.apps/web"),
        ("create configmap settings --from-literal=a=b", "configmap/settings"),
        ("create secret generic hidden --from-literal=a=b", "secret/hidden"),
        ("create service clusterip front --tcp=80:8080", "service/front"),
        ("create serviceaccount robot", "serviceaccount/robot"),
        ("create job once --image=example/app:1", "job.batch/once"),
        ("create cronjob nightly --image=example/app:1 --schedule='0 3 * * *'", "cronjob.batch/nightly"),
        ("create pdb keep --selector=app=web --min-available=50%", "poddisruptionbudget.policy/keep"),
        ("create priorityclass high --value=1000", "priorityclass.scheduling.k8s.io/high"),
        ("create quota bounded --hard=pods=3", "resourcequota/bounded"),
        ("create role reader --verb=get --resource=pods", "role.rbac.authorization.k8s.io/reader"),
        (
            "create clusterrolebinding all --clusterrole=x --user=me",
            "clusterrolebinding.rbac.authorization.k8s.io/all",
        ),
        ("run one --image=example/app:1", "pod/one"),
    ],
)
def test_create_makes_and_get_finds(kubectl, line, made):
    assert kubectl(line) == f"{made} created\n"
    assert kubectl(f"get {made} -o name") == f"{made}\n"


def test_what_create_makes_arrives_whole(kubectl):
    kubectl("create deployment web --image=example/app:1 --replicas=3 --port=80")

    spec = kubectl.json("get deployment web")["spec"]

    assert spec["replicas"] == 3
    assert spec["selector"] == {"matchLabels": {"app": "web"}}
    [container] = spec["template"]["spec"]["containers"]
    assert (container["image"], container["ports"][0]["containerPort"]) == ("example/app:1", 80)


def test_create_from_a_file_makes_every_document(kubectl, tmp_path):
    file = tmp_path / "objects.yaml"
    file.write_text(manifest(deployment("web"), pod("alone")))

    assert kubectl(f"create -f {file}") == "deployment.apps/web created\npod/alone created\n"


def test_create_refuses_what_exists(kubectl):
    kubectl("create namespace shop")

    assert 'namespaces "shop" already exists' in kubectl.refused("create namespace shop")


def test_create_refuses_fields_that_do_not_exist(kubectl):
    wrong = deployment("web")
    wrong["spec"]["replicsa"] = 3

    reported = kubectl.refused("create -f -", stdin=manifest(wrong))

    assert 'unknown field "spec.replicsa"' in reported


def test_create_refuses_what_is_not_valid_and_says_where(kubectl):
    wrong = deployment("web")
    wrong["spec"]["selector"]["matchLabels"] = {"app": "other"}

    assert "spec.template.metadata.labels" in kubectl.refused("create -f -", stdin=manifest(wrong))


def test_dry_run_on_the_server_changes_nothing(kubectl):
    assert "created (server dry run)" in kubectl("create namespace shop --dry-run=server")
    assert "not found" in kubectl.refused("get namespace shop")


def test_apply_creates_then_changes_then_has_nothing_to_do(kubectl):
    first, second = manifest(deployment("web", replicas=2)), manifest(deployment("web", replicas=5))

    assert kubectl("apply -f -", stdin=first) == "deployment.apps/web created\n"
    assert kubectl("apply -f -", stdin=second) == "deployment.apps/web configured\n"
    assert kubectl("apply -f -", stdin=second) == "deployment.apps/web unchanged\n"
    assert kubectl.json("get deployment web")["spec"]["replicas"] == 5


def test_apply_removes_a_field_that_was_applied_before(kubectl):
    before, after = deployment("web"), deployment("web")
    before["metadata"]["annotations"] = {"note": "x"}
    before["spec"]["minReadySeconds"] = 7
    kubectl("apply -f -", stdin=manifest(before))

    kubectl("apply -f -", stdin=manifest(after))

    shown = kubectl.json("get deployment web")
    assert "note" not in shown["metadata"]["annotations"]
    assert not shown["spec"].get("minReadySeconds")


def test_apply_keeps_what_others_have_set(kubectl):
    kubectl("apply -f -", stdin=manifest(deployment("web", image="example/app:1")))
    kubectl("annotate deployment web team=shop")

    kubectl("apply -f -", stdin=manifest(deployment("web", image="example/app:2")))

    assert kubectl.json("get deployment web")["metadata"]["annotations"]["team"] == "shop"


def test_apply_merges_and_removes_containers_by_their_names(kubectl):
    before, after = deployment("web"), deployment("web")
    containers = after["spec"]["template"]["spec"]["containers"]
    del containers[1]
    containers[0]["image"] = "example/app:2"
    kubectl("apply -f -", stdin=manifest(before))

    kubectl("apply -f -", stdin=manifest(after))

    shown = kubectl.json("get deployment web")["spec"]["template"]["spec"]["containers"]
    assert [(container["name"], container["image"]) for container in shown] == [("app", "example/app:2")]


def test_apply_on_the_server_creates_and_merges(kubectl):
    kubectl("apply --server-side -f -", stdin=manifest(deployment("web", replicas=2)))
    kubectl("annotate deployment web team=shop")

    assert "serverside-applied" in kubectl(
        "apply --server-side -f -", stdin=manifest(deployment("web", replicas=4))
    )
    shown = kubectl.json("get deployment web")
    assert (shown["spec"]["replicas"], shown["metadata"]["annotations"]["team"]) == (4, "shop")


def test_apply_on_the_server_removes_what_is_no_longer_applied(kubectl):
    before, after = deployment("web"), deployment("web")
    del after["spec"]["template"]["spec"]["containers"][1]
    kubectl("apply --server-side -f -", stdin=manifest(before))

    kubectl("apply --server-side -f -", stdin=manifest(after))

    shown = kubectl.json("get deployment web")["spec"]["template"]["spec"]["containers"]
    assert [container["name"] for container in shown] == ["app"]


def test_diff_shows_what_apply_would_change(kubectl):
    kubectl("apply -f -", stdin=manifest(deployment("web", image="example/app:1")))

    changed = kubectl.run("diff -f -", stdin=manifest(deployment("web", image="example/app:2")))

    assert changed.returncode == 1, changed.stderr
    assert "+      - image: example/app:2" in changed.stdout


@pytest.mark.parametrize(
    ("kind_of_patch", "patch"),
    [
        ("strategic", {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "new"}]}}}}),
        ("json", [{"op": "replace", "path": "/spec/template/spec/containers/1/image", "value": "new"}]),
        (
            "merge",
            {
                "spec": {
                    "template": {
                        "spec": {
                            "containers": [{"name": "app", "image": "x"}, {"name": "side", "image": "new"}]
                        }
                    }
                }
            },
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_patch_changes_one_container(kubectl, kind_of_patch, patch):
    kubectl.create(deployment("web"))

    assert (
        kubectl(f"patch deployment web --type={kind_of_patch} -p '{json.dumps(patch)}'")
        == "deployment.apps/web patched\n"
    )

    containers = kubectl.json("get deployment web")["spec"]["template"]["spec"]["containers"]
    assert [container["name"] for container in containers] == ["app", "side"]
    assert containers[1]["image"] == "new"


def test_patch_of_the_status_leaves_the_rest_alone(kubectl):
    kubectl.create(deployment("web"))
    patch = json.dumps({"spec": {"replicas": 9}, "status": {"replicas": 2, "readyReplicas": 1}})

    kubectl(f"patch deployment web --subresource=status --type=merge -p '{patch}'")

    assert kubectl.rows("get deployment web")[0][1] == "1/2"


def test_patch_of_the_scale_changes_replicas(kubectl):
    kubectl.create(deployment("web"))

    kubectl('patch deployment web --subresource=scale --type=merge -p \'{"spec":{"replicas":6}}\'')

    assert kubectl.json("get deployment web")["spec"]["replicas"] == 6


def test_patch_says_when_nothing_changes(kubectl):
    kubectl.create(deployment("web"))

    assert "(no change)" in kubectl('patch deployment web -p \'{"spec":{"replicas":2}}\'')


def test_label_adds_changes_and_removes(kubectl, cluster):
    cluster.load(node("east"))

    assert kubectl("label node east tier=gold") == "node/east labeled\n"
    assert "--overwrite is false" in kubectl.refused("label node east tier=iron")
    kubectl("label node east tier=iron --overwrite")
    assert kubectl("get nodes -l tier=iron -o name") == "node/east\n"
    assert kubectl("label node east tier-") == "node/east unlabeled\n"
    assert kubectl("get nodes -l tier -o name") == ""


def test_annotate_adds_and_removes(kubectl):
    kubectl.create(deployment("web"))

    assert kubectl("annotate deployment web note='hello world'") == "deployment.apps/web annotated\n"
    assert kubectl("get deployment web -o jsonpath={.metadata.annotations.note}") == "hello world"
    kubectl("annotate deployment web note-")
    assert kubectl("get deployment web -o jsonpath={.metadata.annotations.note}") == ""


def test_replace_writes_the_whole_object_again(kubectl):
    kubectl.create(deployment("web"))

    assert (
        kubectl("replace -f -", stdin=manifest(deployment("web", replicas=7)))
        == "deployment.apps/web replaced\n"
    )
    assert kubectl.json("get deployment web")["spec"]["replicas"] == 7


def test_replace_refuses_an_outdated_version(kubectl):
    kubectl.create(deployment("web"))
    outdated = kubectl.json("get deployment web")
    kubectl("annotate deployment web note=newer")

    reported = kubectl.refused("replace -f -", stdin=json.dumps(outdated))

    assert "the object has been modified; please apply your changes to the latest version" in reported


@pytest.mark.parametrize("kind", ["deployment", "replicaset", "statefulset"])
def test_scale_changes_replicas(kubectl, kind):
    workload = deployment("web")
    workload["kind"] = {"deployment": "Deployment", "replicaset": "ReplicaSet", "statefulset": "StatefulSet"}[
        kind
    ]
    kubectl.create(workload)

    assert kubectl(f"scale {kind} web --replicas=5") == f"{kind}.apps/web scaled\n"
    assert kubectl.json(f"get {kind} web")["spec"]["replicas"] == 5


def test_scale_refuses_when_the_number_is_not_the_expected_one(kubectl):
    kubectl.create(deployment("web", replicas=2))

    assert "Expected replicas to be 3, was 2" in kubectl.refused(
        "scale deployment web --current-replicas=3 --replicas=5"
    )


def test_set_image_changes_one_container(kubectl):
    kubectl.create(deployment("web"))

    assert kubectl("set image deployment/web app=example/app:9") == "deployment.apps/web image updated\n"
    images = kubectl("get deployment web -o jsonpath={.spec.template.spec.containers[*].image}")
    assert images == "example/app:9 example/side:1"
