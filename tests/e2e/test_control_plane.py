"""The testbed's control plane itself. Needs the built programs.

python -m pytest tests/e2e/test_control_plane.py
"""

import base64
import http.server
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.testbed import (
    ControlPlane,
    Extender,
    LeftoverProcess,
    Options,
    Part,
    PartError,
    leftovers,
    running,
)
from tests.testbed.ports import free_ports
from tests.testbed.processes import ProcessId, wait_gone
from tests.testbed.readiness import until
from tests.testbed.recipe import kubernetes_version

_ROOT = Path(__file__).resolve().parents[2]
_NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
_CAPACITY = {"cpu": "4", "memory": "8Gi", "pods": "110"}
_NODE_STATUS = {
    "status": {
        "capacity": _CAPACITY,
        "allocatable": _CAPACITY,
        "conditions": [{"type": "Ready", "status": "True", "reason": "Test", "message": "plays a kubelet"}],
    }
}


def left_in(folder: Path) -> list[LeftoverProcess]:
    return [leftover for leftover in leftovers() if leftover.run_dir == folder]


def pod(name: str) -> dict[str, Any]:
    containers = [{"name": "main", "image": "none"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers}}


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def create(cluster: ControlPlane, thing: dict[str, Any]) -> None:
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(thing))


def get(cluster: ControlPlane, path: str, accept: str = "application/json") -> tuple[int, bytes]:
    headers = {"Authorization": f"Bearer {cluster.admin_token}", "Accept": accept}
    context = ssl.create_default_context(cafile=cluster.ca_certificate)
    request = urllib.request.Request(cluster.server + path, headers=headers)
    try:
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read()


@contextmanager
def serving(answer: Any, tls: Path | None = None) -> Iterator[tuple[int, list[tuple[str, dict[str, Any]]]]]:
    """A server on loopback that answers POSTs; its port and what it was asked."""
    asked: list[tuple[str, dict[str, Any]]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((self.path, body))
            content = json.dumps(answer(body)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls / "tls.crt", tls / "tls.key")
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1], asked
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("cluster")) as started:
        yield started


def test_every_part_reports_the_pinned_version(cluster: ControlPlane) -> None:
    reported = json.loads(cluster.kubectl("version", "-o", "json"))
    assert (
        reported["clientVersion"]["gitVersion"]
        == reported["serverVersion"]["gitVersion"]
        == kubernetes_version()
    )
    assert reported["serverVersion"]["gitTreeState"] == "clean"
    folder = cluster.binaries.folder
    for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        out = subprocess.run([folder / name, "--version"], capture_output=True, text=True, check=True).stdout
        assert out.strip() == f"Kubernetes {kubernetes_version()}"


def test_protobuf_is_served(cluster: ControlPlane) -> None:
    status, body = get(cluster, "/api/v1/namespaces", accept="application/vnd.kubernetes.protobuf")
    assert (status, body[:4]) == (200, b"k8s\0")


@pytest.mark.parametrize("start", ["", "&resourceVersion=0"])
def test_a_watch_without_a_version_starts_with_what_is_there(cluster: ControlPlane, start: str) -> None:
    path = "/api/v1/namespaces?watch=1&allowWatchBookmarks=true&timeoutSeconds=1" + start
    events = [json.loads(line) for line in get(cluster, path)[1].splitlines()]
    added = {event["object"]["metadata"]["name"] for event in events if event["type"] == "ADDED"}
    assert {"default", "kube-system"} <= added


def test_rbac_refuses_a_service_account_without_a_role(cluster: ControlPlane, tmp_path: Path) -> None:
    cluster.kubectl("create", "serviceaccount", "nobody")
    token = cluster.kubectl("create", "token", "nobody").strip()
    cluster.write_kubeconfig(tmp_path / "kubeconfig", user="nobody", token=token)
    command = [str(cluster.binaries.kubectl), f"--kubeconfig={tmp_path / 'kubeconfig'}", "get", "pods"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 'User "system:serviceaccount:default:nobody" cannot list resource "pods"' in refused.stderr


def test_the_audit_log_shows_who_did_what(cluster: ControlPlane) -> None:
    create(cluster, config_map("audited"))
    mine = [event for event in cluster.audited() if event.get("objectRef", {}).get("name") == "audited"]
    assert [(event["verb"], event["user"]["username"]) for event in mine] == [("create", "admin")]
    users = {event["user"]["username"] for event in cluster.audited()}
    assert {"system:kube-scheduler", "system:kube-controller-manager"} <= users


def test_an_admission_webhook_on_loopback_is_asked(cluster: ControlPlane, tmp_path: Path) -> None:
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(tmp_path / "tls.key"), "-out", str(tmp_path / "tls.crt")]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *names, *files],
        check=True,
        capture_output=True,
    )
    authority = tmp_path / "tls.crt"

    def refuse(review: dict[str, Any]) -> dict[str, Any]:
        response = {"uid": review["request"]["uid"], "allowed": False, "status": {"message": "not today"}}
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}

    with serving(refuse, tls=tmp_path) as (port, asked):
        create(cluster, _webhook(f"https://127.0.0.1:{port}/check", authority.read_bytes()))
        assert until(lambda: _refused(cluster), 10)
        assert asked[-1][0].startswith("/check")
        cluster.kubectl("delete", "validatingwebhookconfiguration", "loopback")


def _webhook(url: str, authority: bytes) -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "loopback"},
        "webhooks": [
            {
                "name": "loopback.example.com",
                "clientConfig": {"url": url, "caBundle": base64.b64encode(authority).decode()},
                "rules": [rule],
                "matchPolicy": "Exact",
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


def _refused(cluster: ControlPlane) -> bool:
    try:
        cluster.kubectl("create", "configmap", "refused", "--dry-run=server")
    except RuntimeError as error:
        return "not today" in str(error)
    return False


def test_the_scheduler_asks_an_extender(cluster: ControlPlane) -> None:
    create(cluster, _NODE)
    cluster.kubectl("patch", "node", "n1", "--subresource=status", "-p", json.dumps(_NODE_STATUS))
    assert until(lambda: "taints" not in _spec(cluster, "node", "n1"), 30)

    def pass_all(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"NodeNames": arguments["NodeNames"]}

    plain = cluster.options
    with serving(pass_all) as (port, asked):
        extender = Extender(f"http://127.0.0.1:{port}", filter_verb="filter")
        cluster.restart(Part.SCHEDULER, replace(plain, extenders=(extender,)))
        create(cluster, pod("extended"))
        assert until(lambda: _node_of(cluster, "extended") == "n1", 20)
        assert [(path, body["NodeNames"]) for path, body in asked] == [("/filter", ["n1"])]
    cluster.restart(Part.SCHEDULER, plain)
    create(cluster, pod("plain"))
    assert until(lambda: _node_of(cluster, "plain") == "n1", 20)


def _node_of(cluster: ControlPlane, name: str) -> str:
    return str(_spec(cluster, "pod", name).get("nodeName", ""))


def _spec(cluster: ControlPlane, kind: str, name: str) -> dict[str, Any]:
    spec = json.loads(cluster.kubectl("get", kind, name, "-o", "json"))["spec"]
    assert isinstance(spec, dict)
    return spec


@pytest.mark.parametrize("kill", [pytest.param(False, id="asked to stop"), pytest.param(True, id="killed")])
@pytest.mark.parametrize("part", list(Part))
def test_a_part_restarts_where_it_was(cluster: ControlPlane, part: Part, kill: bool) -> None:
    name = f"before-{part}-{kill}".lower()
    create(cluster, config_map(name))
    server, before = cluster.server, cluster.process(part)
    cluster.restart(part, kill=kill)
    assert cluster.server == server
    assert not before.alive()
    assert cluster.process(part).alive()
    assert cluster.kubectl("get", "configmap", name, "-o", "name").strip() == f"configmap/{name}"


def test_after_a_compaction_old_versions_are_gone(cluster: ControlPlane) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    old = json.loads(get(cluster, path)[1])["metadata"]["resourceVersion"]
    at_old = f"{path}?resourceVersion={old}&resourceVersionMatch=Exact"
    create(cluster, config_map("later"))
    cluster.restart(Part.API_SERVER)
    assert get(cluster, at_old)[0] == 200
    assert cluster.compact_etcd() > int(old)
    cluster.restart(Part.API_SERVER)
    status, body = get(cluster, at_old)
    assert (status, json.loads(body)["reason"]) == (410, "Expired")


def test_ports_that_are_taken_meanwhile_are_replaced(
    tmp_path: Path, cluster: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = [cluster.port(Part.ETCD), cluster.port(Part.API_SERVER), cluster.port(Part.SCHEDULER)]
    clashes: dict[int, list[tuple[int, ...]]] = {
        2: [(taken[0], free_ports(1)[0])],
        1: [(taken[1],), (taken[2],), (taken[1],)],
    }

    def sometimes_taken(count: int) -> tuple[int, ...]:
        return clashes[count].pop() if clashes[count] else free_ports(count)

    monkeypatch.setattr("tests.testbed.control_plane.free_ports", sometimes_taken)
    with ControlPlane(tmp_path, Options(controller_manager=False)) as other:
        assert clashes == {2: [], 1: []}
        assert get(other, "/readyz")[0] == get(cluster, "/readyz")[0] == 200
        assert other.server != cluster.server


def test_a_part_that_fails_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    options = Options(flags={Part.API_SERVER: ("--no-such-flag",)})
    with pytest.raises(PartError, match=r"kube-apiserver ended before it was ready[^$]*no-such-flag"):
        ControlPlane(tmp_path, options).start()
    assert not left_in(tmp_path)


def test_feature_gates_and_alpha_apis_can_be_turned_on(tmp_path: Path) -> None:
    options = Options(
        controller_manager=False,
        scheduler=False,
        feature_gates={"EvictionRequestAPI": True},
        flags={Part.API_SERVER: ("--runtime-config=lifecycle.k8s.io/v1alpha1=true",)},
    )
    with ControlPlane(tmp_path, options) as alpha:
        assert "evictionrequests" in alpha.kubectl("api-resources", "--api-group=lifecycle.k8s.io")


def test_a_killed_owner_takes_its_control_plane_along(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from tests.testbed import ControlPlane;"
        "ControlPlane(Path(sys.argv[1])).start(); print('ready', flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "run")]
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"ready\n"
        state = json.loads((tmp_path / "run" / "state.json").read_text())
        parts = [ProcessId(**entry["process"]) for entry in state.values()]
        assert [process.alive() for process in parts] == [True] * 4
        owner.kill()
        assert all(wait_gone(process, 10) for process in parts)
    assert not left_in(tmp_path / "run")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "run"
    _testbed("down", tmp_path / "run")


def test_a_folder_in_use_is_not_taken_over(folder: Path) -> None:
    _testbed("up", folder)
    with pytest.raises(PartError, match="in use"):
        ControlPlane(folder).start()


def test_up_stays_and_down_ends_it_also_after_a_crash(folder: Path) -> None:
    assert "nothing is running" in _testbed("status", folder, expected=1)
    assert f"export KUBECONFIG={folder}/kubeconfig" in _testbed("up", folder)
    assert "already running" in _testbed("up", folder)
    assert _testbed("status", folder).count(" running ") == 4
    assert not left_in(folder)
    scheduler = json.loads((folder / "state.json").read_text())[Part.SCHEDULER]["process"]
    os.kill(scheduler["pid"], signal.SIGKILL)
    assert wait_gone(ProcessId(**scheduler), 10)
    assert "ENDED" in _testbed("status", folder, expected=1)
    _testbed("up", folder, expected=1)
    assert "kube-apiserver" in _testbed("down", folder)
    assert "nothing is running" in _testbed("down", folder)


def test_down_ends_what_an_up_that_was_killed_has_started(folder: Path) -> None:
    arguments = [sys.executable, "-m", "tests.testbed", "up", "--run-dir", str(folder)]
    with subprocess.Popen(arguments, cwd=_ROOT) as starting:
        assert until(lambda: any(leftover.run_dir == folder for leftover in running()), 30)
        starting.kill()
    assert "etcd" in _testbed("down", folder)
    assert not any(leftover.run_dir == folder for leftover in running())


def _testbed(command: str, folder: Path, expected: int = 0) -> str:
    arguments = [sys.executable, "-m", "tests.testbed", command, "--run-dir", str(folder)]
    done = subprocess.run(arguments, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == expected, done.stdout + done.stderr
    return done.stdout
