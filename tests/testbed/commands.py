"""The command line of each part, and the files it reads: everything that is particular to Kubernetes here."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from tests.testbed.cache import Binaries
from tests.testbed.options import Options
from tests.testbed.parts import Part
from tests.testbed.run_dir import RunDir

__all__ = ["PORTS_NEEDED", "Commands", "Ports", "audit_policy", "scheduler_configuration"]

Ports = Mapping[Part, tuple[int, ...]]

# etcd has a second port for peers, which can't be turned off.
PORTS_NEEDED = {Part.ETCD: 2, Part.API_SERVER: 1, Part.CONTROLLER_MANAGER: 1, Part.SCHEDULER: 1}
_QPS, _BURST = 1000, 2000
_OPEN_PATHS = "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics"


@dataclass(frozen=True)
class Commands:
    binaries: Binaries
    run_dir: RunDir
    options: Options
    streaming_lists: bool

    def of(self, part: Part, ports: Ports) -> list[str]:
        """The command that runs a part on its ports; those of the parts it talks to must be known."""
        match part:
            case Part.ETCD:
                command = self._etcd(*ports[part])
            case Part.API_SERVER:
                command = self._api_server(ports)
            case Part.CONTROLLER_MANAGER:
                command = self._controller_manager(ports)
            case Part.SCHEDULER:
                command = self._scheduler(ports)
        return [*command, *self.options.flags.get(part, ())]

    def _etcd(self, client_port: int, peer_port: int) -> list[str]:
        client, peer = f"http://127.0.0.1:{client_port}", f"http://127.0.0.1:{peer_port}"
        return [
            str(self.binaries.etcd),
            "--name=testbed",
            f"--data-dir={self.run_dir.etcd}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=testbed={peer}",
            "--unsafe-no-fsync",  # a test's data need not survive the machine
            f"--quota-backend-bytes={8 << 30}",  # 150,000 pods and their history outgrow the default of 2 GB
            "--snapshot-count=10000",
        ]

    def _api_server(self, ports: Ports) -> list[str]:
        command = [
            str(self.binaries.kube_apiserver),
            f"--etcd-servers=http://127.0.0.1:{ports[Part.ETCD][0]}",
            f"--cert-dir={self.run_dir.certificates}",
            f"--secure-port={ports[Part.API_SERVER][0]}",
            f"--bind-address={self.options.address}",
            # Else it looks for an outside address, and fails on a machine that has none.
            f"--advertise-address={self.options.address}",
            # Pods reach the API server through the Service `kubernetes`; without real nodes it is not used.
            f"--endpoint-reconciler-type={'lease' if self.options.real_nodes else 'none'}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.run_dir.service_account_public_key}",
            f"--service-account-signing-key-file={self.run_dir.service_account_key}",
            f"--token-auth-file={self.run_dir.tokens}",
            f"--authorization-mode={'Node,RBAC' if self.options.real_nodes else 'RBAC'}",
            "--allow-privileged=true",
            "--max-requests-inflight=3000",
            "--max-mutating-requests-inflight=2000",
            # Else, asked to stop, it waits for open watches: more than 15 seconds instead of one.
            "--shutdown-watch-termination-grace-period=1s",
            *self._feature_gates({} if self.streaming_lists else {"WatchList": False}),
        ]
        if not self.options.service_accounts:
            command.append("--disable-admission-plugins=ServiceAccount")
        if self.options.real_nodes:
            command += [
                "--enable-admission-plugins=NodeRestriction",
                "--kubelet-preferred-address-types=InternalIP",
            ]
        if self.options.audit:
            command += [
                f"--audit-policy-file={self.run_dir.audit_policy}",
                f"--audit-log-path={self.run_dir.audit_log}",
                "--audit-log-maxsize=4096",  # one file: a reader need not follow rotations
            ]
        return command

    def _controller_manager(self, ports: Ports) -> list[str]:
        return [
            str(self.binaries.kube_controller_manager),
            *self._client(Part.CONTROLLER_MANAGER, ports),
            f"--kubeconfig={self.run_dir.kubeconfig_of(Part.CONTROLLER_MANAGER)}",
            "--leader-elect=false",
            f"--kube-api-qps={_QPS}",
            f"--kube-api-burst={_BURST}",
            f"--service-account-private-key-file={self.run_dir.service_account_key}",
            f"--root-ca-file={self.run_dir.ca_certificate}",
            # Each controller under its own name, as clusters have it: the audit log tells who did what.
            "--use-service-account-credentials=true",
            *self._feature_gates(),
        ]

    def _scheduler(self, ports: Ports) -> list[str]:
        return [
            str(self.binaries.kube_scheduler),
            *self._client(Part.SCHEDULER, ports),
            f"--config={self.run_dir.scheduler_configuration}",
            *self._feature_gates(),
        ]

    def _client(self, part: Part, ports: Ports) -> list[str]:
        kubeconfig = self.run_dir.kubeconfig_of(part)
        return [
            "--bind-address=127.0.0.1",
            f"--secure-port={ports[part][0]}",
            f"--authentication-kubeconfig={kubeconfig}",
            "--authentication-skip-lookup=true",  # there is no client CA to look up
            f"--authorization-kubeconfig={kubeconfig}",
            _OPEN_PATHS,
        ]

    def _feature_gates(self, defaults: Mapping[str, bool] | None = None) -> list[str]:
        chosen = {**(defaults or {}), **self.options.feature_gates}
        gates = ",".join(f"{name}={str(on).lower()}" for name, on in chosen.items())
        return [f"--feature-gates={gates}"] if gates else []


def audit_policy() -> str:
    """One line per finished request: who, what, which object, and the answer; no bodies."""
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata"}],
    }
    return json.dumps(policy, indent=2) + "\n"


def scheduler_configuration(run_dir: RunDir, options: Options) -> str:
    configuration: dict[str, object] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {
            "kubeconfig": str(run_dir.kubeconfig_of(Part.SCHEDULER)),
            "qps": _QPS,
            "burst": _BURST,
        },
        "leaderElection": {"leaderElect": False},
        "extenders": [extender.as_configuration() for extender in options.extenders],
        **options.scheduler_settings,
    }
    return json.dumps(configuration, indent=2) + "\n"
