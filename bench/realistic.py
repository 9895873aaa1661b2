"""Pods as a busy cluster has them: few templates, many replicas, and all the fields that are never read.

Kept from real clusters, because it decides what sharing is worth: every pod has its own name for the
volume of its service account token (in volumes and in every container's mounts), StatefulSets give each pod
its own claim, DaemonSets pin each pod to its node by affinity, each pod has its own times and addresses.
"""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

__all__ = ["pods"]

Json = dict[str, Any]

_START = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_REPLICAS = [2, 3, 5, 10, 20, 40, 80, 150, 300]
_KINDS = [("ReplicaSet", 68), ("DaemonSet", 15), ("StatefulSet", 12), ("Job", 5)]


def pods(count: int, seed: int = 1) -> Iterator[Json]:
    """Generate pods in the order of a list: by namespace and name, so replicas of one template are
    adjacent.
    """
    rng = random.Random(seed)
    nodes = [f"ip-10-{n // 250}-{n % 250}-{rng.randrange(256)}.internal" for n in range(max(4, count // 30))]
    made = 0
    template = 0
    while made < count:
        kind = rng.choices([name for name, _ in _KINDS], [share for _, share in _KINDS])[0]
        replicas = len(nodes) if kind == "DaemonSet" else rng.choice(_REPLICAS)
        replicas = min(replicas, count - made)
        shape = _Template(template, kind, random.Random(f"{seed}/{template}"))
        for ordinal in range(replicas):
            node = nodes[ordinal] if kind == "DaemonSet" else rng.choice(nodes)
            yield shape.pod(ordinal, node, rng)
        made += replicas
        template += 1


class _Template:
    def __init__(self, number: int, kind: str, rng: random.Random) -> None:
        self.kind = kind
        self.app = f"{rng.choice(['checkout', 'search', 'billing', 'ledger', 'media', 'auth'])}-{number}"
        self.namespace = f"team-{number % 23}"
        self.hash = "".join(rng.choices(_LETTERS, k=10))
        self.owner = f"{self.app}-{self.hash}" if kind == "ReplicaSet" else self.app
        self.owner_uid = _uid(rng)
        self.has_sidecar = rng.random() < 0.2
        self.has_init = rng.random() < 0.25
        self.is_spread = kind == "ReplicaSet" and rng.random() < 0.4
        self.is_apart = kind != "DaemonSet" and rng.random() < 0.3
        self.cpu = rng.choice(["50m", "100m", "250m", "500m", "1", "2"])
        self.memory = rng.choice(["64Mi", "128Mi", "256Mi", "1Gi", "4Gi"])
        self.env = [(f"{self.app.upper()}_SETTING_{n}", f"value-{rng.randrange(10**6)}") for n in range(3)]

    def pod(self, ordinal: int, node: str, rng: random.Random) -> Json:
        suffix = self._suffix(ordinal)
        name = f"{self.app}-{ordinal}" if self.kind == "StatefulSet" else f"{self.owner}-{suffix}"
        created = _START + timedelta(seconds=rng.randrange(4_000_000))
        token = "kube-api-access-" + "".join(rng.choices(_LETTERS, k=5))
        return {
            "metadata": self._metadata(name, created, rng),
            "spec": self._spec(name, node, token),
            "status": self._status(created, token, rng),
        }

    def _suffix(self, ordinal: int) -> str:
        """Five letters that look like dice and are never the same twice in one template."""
        number = (ordinal * 7_368_787 + len(self.app) * 104_729) % len(_LETTERS) ** 5
        letters = []
        for _ in range(5):
            number, letter = divmod(number, len(_LETTERS))
            letters.append(_LETTERS[letter])
        return "".join(letters)

    def _metadata(self, name: str, created: datetime, rng: random.Random) -> Json:
        labels = {
            "app.kubernetes.io/name": self.app,
            "app.kubernetes.io/part-of": self.namespace,
            "app.kubernetes.io/version": "v2.14.3",
            "team": self.namespace,
            "topology.kubernetes.io/region": "eu-central-1",
            "topology.kubernetes.io/zone": f"eu-central-1{rng.choice('abc')}",
        }
        if self.kind == "ReplicaSet":
            labels["pod-template-hash"] = self.hash
        elif self.kind == "StatefulSet":
            labels |= {
                "statefulset.kubernetes.io/pod-name": name,
                "apps.kubernetes.io/pod-index": name.rpartition("-")[2],
            }
        address = f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(256)}/32"
        return {
            "name": name,
            "generateName": f"{self.owner}-",
            "namespace": self.namespace,
            "uid": _uid(rng),
            "resourceVersion": str(rng.randrange(10**8, 10**9)),
            "generation": 1,
            "creationTimestamp": _text(created),
            "labels": dict(sorted(labels.items())),
            "annotations": {
                "cni.projectcalico.org/podIP": address,
                "prometheus.io/port": "9102",
                "prometheus.io/scrape": "true",
            },
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1" if self.kind == "Job" else "apps/v1",
                    "kind": self.kind,
                    "name": self.owner,
                    "uid": self.owner_uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": self._managed_fields(created),
        }

    def _managed_fields(self, created: datetime) -> list[Json]:
        container = _names("image", "imagePullPolicy", "name", "ports") | {
            "f:env": {f'k:{{"name":"{name}"}}': _names("name", "value") for name, _ in self.env},
            "f:resources": {"f:limits": _names("memory"), "f:requests": _names("cpu", "memory")},
        }
        spec = {
            "f:metadata": _names("generateName", "ownerReferences") | {"f:labels": _names("team")},
            "f:spec": {"f:containers": {'k:{"name":"app"}': container}, "f:restartPolicy": {}},
        }
        kinds = ("Ready", "Initialized", "ContainersReady", "PodReadyToStartContainers")
        status = _names("containerStatuses", "hostIP", "hostIPs", "phase", "podIP", "podIPs", "startTime")
        status["f:conditions"] = {f'k:{{"type":"{kind}"}}': _names("status", "type") for kind in kinds}
        return [
            _managed("kube-controller-manager", created, spec),
            _managed("kubelet", created + timedelta(seconds=9), {"f:status": status}, subresource="status"),
        ]

    def _spec(self, name: str, node: str, token: str) -> Json:
        spec: Json = {
            "volumes": [
                {"name": "config", "configMap": {"name": f"{self.app}-config", "defaultMode": 420}},
                {"name": "scratch", "emptyDir": {}},
                {"name": token, "projected": _TOKEN},
            ],
            "containers": [self._container("app", token)],
            "restartPolicy": "OnFailure" if self.kind == "Job" else "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": self.app,
            "serviceAccount": self.app,
            "nodeName": node,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "schedulerName": "default-scheduler",
            "tolerations": [_toleration("not-ready"), _toleration("unreachable")],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        }
        if self.has_sidecar:
            spec["containers"].append(self._container("proxy", token))
        if self.has_init:
            spec["initContainers"] = [self._container("migrate", token)]
        if self.kind == "StatefulSet":
            spec["hostname"] = name
            spec["volumes"].append({"name": "data", "persistentVolumeClaim": {"claimName": f"data-{name}"}})
        if affinity := self._affinity(node):
            spec["affinity"] = affinity
        if self.is_spread:
            spec["topologySpreadConstraints"] = [
                {
                    "maxSkew": 1,
                    "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": {"app.kubernetes.io/name": self.app}},
                }
            ]
        return spec

    def _affinity(self, node: str) -> Json:
        if self.kind == "DaemonSet":
            field = {"key": "metadata.name", "operator": "In", "values": [node]}
            return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{"matchFields": [field]}]}}}
        if self.is_apart:
            term = {
                "labelSelector": {"matchLabels": {"app.kubernetes.io/name": self.app}},
                "topologyKey": "kubernetes.io/hostname",
            }
            return {"podAntiAffinity": {_PREFERRED: [{"weight": 100, "podAffinityTerm": term}]}}
        return {}

    def _container(self, name: str, token: str) -> Json:
        container: Json = {
            "name": name,
            "image": f"registry.example.com/{self.namespace}/{self.app}-{name}:v2.14.3",
            "args": ["--listen=:8080", f"--config=/etc/{self.app}/config.yaml", "--log-format=json"],
            "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
            "env": [{"name": n, "value": v} for n, v in (self.env if name == "app" else self.env[:2])],
            "resources": {
                "limits": {"memory": self.memory},
                "requests": {"cpu": self.cpu, "memory": self.memory},
            },
            "volumeMounts": [
                {"name": "config", "mountPath": f"/etc/{self.app}"},
                {
                    "name": token,
                    "readOnly": True,
                    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                },
            ],
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
            "securityContext": {"capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": False},
        }
        if name != "migrate":
            container["readinessProbe"] = _probe("/ready")
            container["livenessProbe"] = _probe("/healthz")
        return container

    def _status(self, created: datetime, token: str, rng: random.Random) -> Json:
        bound, started = created + timedelta(seconds=1), created + timedelta(seconds=rng.randint(3, 20))
        ready = started + timedelta(seconds=rng.randint(1, 30))
        broken = rng.random() < 0.02
        status: Json = {
            "phase": "Running",
            "conditions": [
                _condition("PodReadyToStartContainers", started),
                _condition("Initialized", started),
                _condition("Ready", ready, not broken),
                _condition("ContainersReady", ready, not broken),
                _condition("PodScheduled", bound),
            ],
            "hostIP": f"10.0.{rng.randrange(256)}.{rng.randrange(256)}",
            "podIP": f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(256)}",
            "startTime": _text(bound),
            "containerStatuses": [self._container_status("app", started, token, rng, broken=broken)],
            "qosClass": "Burstable",
        }
        status |= {"podIPs": [{"ip": status["podIP"]}], "hostIPs": [{"ip": status["hostIP"]}]}
        if self.has_sidecar:
            status["containerStatuses"].append(self._container_status("proxy", started, token, rng))
        if self.has_init:
            done = self._container_status("migrate", started, token, rng)
            done["state"] = {
                "terminated": {
                    "exitCode": 0,
                    "reason": "Completed",
                    "startedAt": _text(started),
                    "finishedAt": _text(started + timedelta(seconds=2)),
                    "containerID": done["containerID"],
                }
            }
            status["initContainerStatuses"] = [done]
        return status

    def _container_status(
        self, name: str, started: datetime, token: str, rng: random.Random, *, broken: bool = False
    ) -> Json:
        state: Json = {"running": {"startedAt": _text(started)}}
        if broken:
            state = {"waiting": {"reason": "CrashLoopBackOff", "message": f"back-off 5m0s {name}"}}
        return {
            "name": name,
            "state": state,
            "lastState": {},
            "ready": not broken,
            "restartCount": 7 if broken else 0,
            "image": f"registry.example.com/{self.namespace}/{self.app}-{name}:v2.14.3",
            "imageID": f"registry.example.com/{self.app}@sha256:{self.hash * 6}abcd",
            "containerID": f"containerd://{rng.getrandbits(256):064x}",
            "started": not broken,
            "allocatedResources": {"cpu": self.cpu, "memory": self.memory},
            "resources": {
                "limits": {"memory": self.memory},
                "requests": {"cpu": self.cpu, "memory": self.memory},
            },
            "volumeMounts": [
                {"name": "config", "mountPath": f"/etc/{self.app}"},
                {
                    "name": token,
                    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                    "readOnly": True,
                    "recursiveReadOnly": "Disabled",
                },
            ],
            "user": {"linux": {"uid": 1000, "gid": 1000, "supplementalGroups": [1000]}},
        }


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_TOKEN = {
    "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {
            "downwardAPI": {
                "items": [
                    {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
                ]
            }
        },
    ],
    "defaultMode": 420,
}


def _toleration(taint: str) -> Json:
    key = f"node.kubernetes.io/{taint}"
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}


def _probe(path: str) -> Json:
    return {
        "httpGet": {"path": path, "port": 8080, "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }


def _condition(kind: str, at: datetime, holds: bool = True) -> Json:
    condition: Json = {
        "type": kind,
        "observedGeneration": 1,
        "status": "True" if holds else "False",
        "lastProbeTime": None,
        "lastTransitionTime": _text(at),
    }
    if not holds:
        condition |= {"reason": "ContainersNotReady", "message": "containers with unready status: [app]"}
    return condition


def _names(*fields: str) -> Json:
    return {".": {}} | {f"f:{field}": {} for field in fields}


def _managed(manager: str, at: datetime, fields: Json, **more: str) -> Json:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": _text(at),
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        **more,
    }


def _text(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _uid(rng: random.Random) -> str:
    raw = f"{rng.getrandbits(128):032x}"
    return f"{raw[:8]}-{raw[8:12]}-{raw[12:16]}-{raw[16:20]}-{raw[20:]}"
