"""Send the objects of `cases.yaml` to a real API server and save its responses.

    python tests/unit/kubesim/captured/capture.py KUBECONFIG

`tables.json` gets the table of each kind, `protobuf.json` one object of each as JSON and as protobuf.

Everything it makes is in a namespace of its own or has a name that starts with `golden`, and is removed
again. The kubeconfig needs a CA file and a token.
"""

import base64
import json
import ssl
import sys
import time
import urllib.error
import urllib.request
from email.utils import parsedate_to_datetime
from pathlib import Path

import yaml

HERE = Path(__file__).parent
NAMESPACE = "golden-tables"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
WITHOUT_COLUMNS = {
    "ClusterRoleBinding", "ControllerRevision", "CSIDriver", "CSINode", "ReplicationController",
    "RoleBinding", "VolumeAttachment",
}  # fmt: skip
"""The simulated API server has no columns for these kinds."""


class Server:
    def __init__(self, kubeconfig):
        config = yaml.safe_load(Path(kubeconfig).read_text())
        cluster = config["clusters"][0]["cluster"]
        self.url = cluster["server"]
        self.token = config["users"][0]["user"]["token"]
        self.resources = {}
        self.tls = ssl.create_default_context(cafile=cluster["certificate-authority"])

    def ask(self, method, path, body=None, **headers):
        content, date = self.ask_bytes(method, path, body, **headers)
        return json.loads(content), date

    def ask_bytes(self, method, path, body=None, **headers):
        request = urllib.request.Request(
            self.url + path, method=method, data=body and json.dumps(body).encode()
        )
        request.add_header("Authorization", f"Bearer {self.token}")
        request.add_header("Content-Type", headers.pop("content_type", "application/json"))
        for name, value in headers.items():
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, context=self.tls) as answer:
                return answer.read(), answer.headers["Date"]
        except urllib.error.HTTPError as error:
            error.msg += f" for {method} {path}: {error.read().decode()}"
            raise

    def discover(self):
        """(apiVersion, kind) → path of the collection"""
        found = {}
        paths = ["/api/v1"]
        paths += [
            f"/apis/{g['preferredVersion']['groupVersion']}" for g in self.ask("GET", "/apis")[0]["groups"]
        ]
        for path in paths:
            listed = self.ask("GET", path)[0]
            for resource in listed["resources"]:
                if "/" not in resource["name"]:
                    inside = f"/namespaces/{NAMESPACE}" if resource["namespaced"] else ""
                    where = f"{path}{inside}/{resource['name']}"
                    found[listed["groupVersion"], resource["kind"]] = where
        return found


def main(kubeconfig):
    server = Server(kubeconfig)
    cases = yaml.safe_load((HERE / "cases.yaml").read_text())
    namespace = {"metadata": {"name": NAMESPACE}}
    server.ask("POST", "/api/v1/namespaces", namespace)
    created = []
    try:
        for case in cases:
            created.append(create(server, dict(case)))  # noqa: PERF401 - what was made before a failure goes too
        time.sleep(2)
        tables = [
            capture(server, *which, cases)
            for which in dict.fromkeys((c["apiVersion"], c["kind"]) for c in cases)
            if which[1] not in WITHOUT_COLUMNS
        ]
        pairs = [both_forms(server, path) for path in one_of_each(created)]
    finally:
        for path in reversed(created):
            remove(server, path)
        remove(server, f"/api/v1/namespaces/{NAMESPACE}")
    keep(HERE / "tables.json", tables)
    keep(HERE / "protobuf.json", pairs)


def keep(file, found):
    file.write_text("[\n" + ",\n".join(map(json.dumps, found)) + "\n]\n")


def one_of_each(paths):
    by_collection = {path.rpartition("/")[0]: path for path in reversed(paths)}
    json_only = ("golden.example.com", "apiextensions.k8s.io")
    return [path for path in by_collection.values() if not any(group in path for group in json_only)]


def both_forms(server, path):
    """Read until nothing changed in between."""
    while True:
        shown, _ = server.ask("GET", path)
        encoded, _ = server.ask_bytes("GET", path, Accept="application/vnd.kubernetes.protobuf")
        if server.ask("GET", path)[0] == shown:
            return {"json": shown, "protobuf": base64.b64encode(encoded).decode()}


def create(server, case):
    status, deleted = case.pop("status", None), case.pop("deleted", False)
    custom = case["kind"] == "Golden"
    if custom:
        case |= {"status": status or {}}
    which = case["apiVersion"], case["kind"]
    while which not in server.resources:  # a new definition is served after a moment
        time.sleep(0.1)
        server.resources = server.discover()
    collection = server.resources[which]
    path = f"{collection}/{case['metadata']['name']}"
    server.ask("POST", collection, case)
    if status and not custom:
        merge = {"content_type": "application/merge-patch+json"}
        server.ask("PATCH", f"{path}/status", {"status": status}, **merge)
    if deleted:
        server.ask("DELETE", path)
    return path


def capture(server, api_version, kind, cases):
    collection = server.resources[api_version, kind]
    table, date = server.ask("GET", f"{collection}?includeObject=Object", Accept=TABLE)
    names = tuple(c["metadata"]["name"] for c in cases if c["kind"] == kind)
    rows = [row for row in table["rows"] if row["object"]["metadata"]["name"].startswith(names)]
    for row in rows:
        for noise in ("managedFields", "uid", "resourceVersion", "generation"):
            row["object"]["metadata"].pop(noise, None)
    columns = [[c["name"], c["type"], c["format"], c["priority"]] for c in table["columnDefinitions"]]
    now = parsedate_to_datetime(date).isoformat()
    return {"apiVersion": api_version, "kind": kind, "now": now, "columns": columns, "rows": rows}


def remove(server, path):
    try:
        if "/pods/" in path:
            finalizers = {"metadata": {"finalizers": []}}
            server.ask("PATCH", path, finalizers, content_type="application/merge-patch+json")
        server.ask("DELETE", path)
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise


if __name__ == "__main__":
    main(sys.argv[1])
