"""The manifests of the daemon and of the webhook, which is the scheduler extender too.

The webhook configurations and the certificate Secret are installed without content: the webhook may write
certificates and `caBundle` into them, but neither create nor delete them. Applying the manifests again
therefore keeps what is there.
"""

import json
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from rescheduler.api.podmigration import Handover
from rescheduler.api.well_known_names import EVICTION_TURNS_CONFIG_MAP, HANDOVER_ANNOTATION
from rescheduler.config.policy import Policy
from rescheduler.config.scheduler_file import API_VERSION, KIND, PLUGIN
from rescheduler.install.admission_policies import user_name
from rescheduler.install.install_options import (
    CONFIGURATION_FILE,
    DAEMON,
    EXTENDER_PORT,
    HEALTH_PORT,
    PAGE_PORT,
    WEB,
    WEBHOOK,
    WEBHOOK_PORT,
    Options,
    labels,
    metadata,
)
from rescheduler.install.rbac import daemon_roles, user_roles, web_roles, webhook_roles
from rescheduler.kube.api_resources import Object
from rescheduler.steering.webhook.webhook_configurations import (
    WEBHOOK_SECRET,
    ServiceAddress,
    UnguardedEvictions,
    webhook_configurations,
)

__all__ = [
    "EXTENDER_ONLY",
    "NOTIFICATIONS",
    "OTLP_ENDPOINT",
    "RESTRICTED_COPIES",
    "WEB_ACTIONS",
    "WEB_CERTIFICATE",
    "WEB_PAGE",
    "WEB_PORT_NAME",
    "ProgramSpec",
    "configuration_file",
    "configuration_text",
    "daemon_objects",
    "deployment",
    "disruption_budget",
    "objects_that_the_webhook_writes",
    "web_service",
    "web_tls_arguments",
    "webhook_objects",
]

_SCRATCH: Final = {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}
"""Python reads TLS keys only from files. They are written here, in memory, and removed immediately."""

RESTRICTED_COPIES: Final = "restrictedCopies"
"""The setting that says that our admission policies are installed."""
_UNPRIVILEGED_UID: Final = 65532
_HOSTNAME: Final = "kubernetes.io/hostname"
_ZONE: Final = "topology.kubernetes.io/zone"


@dataclass(frozen=True, slots=True)
class ProgramSpec:
    """One of our commands that runs in a pod."""

    name: str
    component: str
    command: tuple[str, ...]
    port: int
    port_name: str
    scheme: str
    """Scheme of the health probes."""
    more_ports: tuple[tuple[str, int], ...] = field(default=(), kw_only=True)
    """Name and number of each additional port."""
    replicas: int
    resources: dict[str, Any]
    configured: bool = False
    """Whether it reads the configuration file, which is that of the daemon."""
    certificate_secret: str = ""
    """Secret with the certificate of the web page."""
    notifications_secret: str = ""
    """Secret with addresses and headers of notifications."""
    environment: tuple[tuple[str, str], ...] = ()
    """Name and value of each environment variable."""
    grace_s: int = 30
    is_copied: bool = True
    """Whether the daemon may create copies of its pods."""


def deployment(program: ProgramSpec, options: Options, namespace: str) -> Object:
    """Return the Deployment: unprivileged pods that are spread over nodes."""
    about = metadata(program.name, namespace, program.component)
    if not program.is_copied:
        about["annotations"] = {HANDOVER_ANNOTATION: Handover.EVICT.value}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": about,
        "spec": {
            "replicas": program.replicas,
            "selector": {"matchLabels": labels(program.component)},
            "template": {
                "metadata": {"annotations": options.pod_annotations, "labels": labels(program.component)},
                "spec": _pod(program, options),
            },
        },
    }


def disruption_budget(program: ProgramSpec, namespace: str) -> Object:
    """Return a budget of one pod at a time, so that a drain can continue but never stops all replicas."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(program.name, namespace, program.component),
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": labels(program.component)},
        },
    }


def _pod(program: ProgramSpec, options: Options) -> Object:
    volumes = [_SCRATCH]
    if program.configured:
        volumes.append({"name": "configuration", "configMap": {"name": DAEMON}})
    if program.certificate_secret:
        volumes.append({"name": WEB_CERTIFICATE, "secret": {"secretName": program.certificate_secret}})
    if program.notifications_secret:
        # The Secret may be created later: moves don't depend on it.
        secret = {"secretName": program.notifications_secret, "optional": True}
        volumes.append({"name": NOTIFICATIONS, "secret": secret})
    return {
        "serviceAccountName": program.name,
        "imagePullSecrets": options.image_pull_secrets,
        "priorityClassName": options.priority_class_name,
        "nodeSelector": options.node_selector,
        "tolerations": options.tolerations,
        **_spread(program.component, options),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _UNPRIVILEGED_UID,
            "runAsGroup": _UNPRIVILEGED_UID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": program.grace_s,
        "containers": [_container(program, options)],
        "volumes": volumes,
    }


def _container(program: ProgramSpec, options: Options) -> Object:
    mounts: list[Object] = [{"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108 - in the container
    if program.configured:
        mounts.append({"name": "configuration", "mountPath": "/etc/rescheduler"})
    if program.certificate_secret:
        mounts.append({"name": WEB_CERTIFICATE, "mountPath": _WEB_FOLDER, "readOnly": True})
    if program.notifications_secret:
        mounts.append({"name": NOTIFICATIONS, "mountPath": _NOTIFICATIONS_FOLDER, "readOnly": True})
    return {
        "name": program.component,
        "image": f"{options.image.repository}:{options.image.tag}",
        "imagePullPolicy": options.image.pull_policy,
        "args": [*program.command, f"--log-level={options.log_level}"],
        "env": [
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            *({"name": name, "value": value} for name, value in program.environment),
        ],
        "ports": [
            {"name": name, "containerPort": port}
            for name, port in ((program.port_name, program.port), *program.more_ports)
        ],
        "livenessProbe": _probe(program, "/healthz", period_s=10, failures=6),
        "readinessProbe": _probe(program, "/readyz", period_s=5, failures=2),
        "resources": program.resources,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }


def _probe(program: ProgramSpec, path: str, *, period_s: int, failures: int) -> Object:
    return {
        "httpGet": {"path": path, "port": program.port_name, "scheme": program.scheme},
        "periodSeconds": period_s,
        "failureThreshold": failures,
    }


def _spread(component: str, options: Options) -> Object:
    """Return the fields that keep replicas on different nodes, and in different zones where nodes have any.

    Both are preferences: on a single node, or where only one has room, all replicas run there, and a rollout
    never waits for a node. Together they outweigh the resource scores of the default scheduler: where another
    node has room, it is chosen. Zones are not a topology spread constraint, because a node without the key of
    one constraint gets no score for any of them: without zone labels, nodes would not count either.
    """
    # Pods of the previous revision don't count: they are about to be deleted.
    selector = {"labelSelector": {"matchLabels": labels(component)}, "matchLabelKeys": ["pod-template-hash"]}
    weights = ((_HOSTNAME, 100), (_ZONE, 50))
    terms = [
        {"weight": weight, "podAffinityTerm": {"topologyKey": key, **selector}} for key, weight in weights
    ]
    constraint = {"maxSkew": 1, "topologyKey": _HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway", **selector}
    return {
        "affinity": {
            "nodeAffinity": options.affinity.node_affinity,
            "podAffinity": options.affinity.pod_affinity,
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms},
        },
        "topologySpreadConstraints": [constraint],
    }


WEB_PAGE, WEB_ACTIONS = "--web", "--web-allow-actions"
WEB_CERTIFICATE = "web-certificate"
NOTIFICATIONS = "notifications"
OTLP_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
WEB_PORT_NAME = "web"
_WEB_FOLDER = "/etc/rescheduler-web"
_NOTIFICATIONS_FOLDER = "/etc/rescheduler-notifications"
_DAEMON_COMPONENT = "daemon"


def daemon_objects(options: Options, namespace: str, configuration: str) -> list[Object]:
    """Return the objects of the daemon; `configuration` is the content of the configuration file."""
    web = options.web
    is_served = bool(web.enabled and web.tls_secret)
    program = ProgramSpec(
        name=DAEMON,
        component=_DAEMON_COMPONENT,
        command=(
            "run",
            f"--config=/etc/rescheduler/{CONFIGURATION_FILE}",
            f"--port={HEALTH_PORT}",
            *((WEB_PAGE,) if web.enabled else ()),
            *((WEB_ACTIONS,) if web.enabled and web.actions else ()),
            *(web_tls_arguments(web.hosts) if is_served else ()),
        ),
        port=HEALTH_PORT,
        port_name="metrics",
        scheme="HTTP",
        more_ports=((WEB_PORT_NAME, PAGE_PORT),) if is_served else (),
        replicas=options.daemon.replicas,
        resources=options.daemon.resources,
        configured=True,
        certificate_secret=web.tls_secret if is_served else "",
        notifications_secret=options.daemon.notifications_secret,
        environment=((OTLP_ENDPOINT, endpoint),) if (endpoint := options.daemon.otlp_endpoint) else (),
    )
    return [
        *daemon_roles(namespace),
        *user_roles(namespace),
        *(web_roles(namespace) if web.enabled else ()),
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata(DAEMON, namespace, _DAEMON_COMPONENT),
            "data": {CONFIGURATION_FILE: configuration},
        },
        deployment(program, options, namespace),
        disruption_budget(program, namespace),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata(DAEMON, namespace, _DAEMON_COMPONENT),
            "spec": {
                "selector": labels(_DAEMON_COMPONENT),
                "ports": [{"name": "metrics", "port": HEALTH_PORT, "targetPort": "metrics"}],
            },
        },
    ]


def web_tls_arguments(hosts: str) -> tuple[str, ...]:
    """Return the arguments that make the page listen on all addresses, with its certificate."""
    allowed = (f"--web-allowed-host={hosts}",) if hosts else ()
    return ("--web-host=", "--web-certificate", f"{_WEB_FOLDER}/tls.crt", f"{_WEB_FOLDER}/tls.key", *allowed)


def web_service(namespace: str) -> Object:
    """Return the Service of the page. A viewer stays on one replica, because each has its own sessions."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(WEB, namespace, "web"),
        "spec": {
            "selector": labels(_DAEMON_COMPONENT),
            "sessionAffinity": "ClientIP",
            "ports": [{"name": "https", "port": 443, "targetPort": WEB_PORT_NAME}],
        },
    }


def configuration_text(options: Options) -> str:
    """Return the configuration file; `options.args` override what follows from other options."""
    implied = {"dryRun": options.dry_run, RESTRICTED_COPIES: options.admission_policies.enabled}
    return configuration_file(implied | options.args)


def configuration_file(args: object) -> str:
    """Return a configuration file with these args."""
    plugin = {"name": PLUGIN, "args": args}
    profile = {"schedulerName": "default-scheduler", "pluginConfig": [plugin]}
    file = {"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]}
    return yaml.safe_dump(file, sort_keys=False, allow_unicode=True)


EXTENDER_ONLY = "--extender-only"
_WEBHOOK_COMPONENT = "webhook"
_EXTENDER_PORT_NAME = "extender"


def webhook_objects(options: Options, namespace: str, configuration: str) -> list[Object]:
    """Return the objects of the webhook; `configuration` is the content of the configuration file."""
    program = ProgramSpec(
        name=WEBHOOK,
        component=_WEBHOOK_COMPONENT,
        command=(
            "webhook",
            f"--config=/etc/rescheduler/{CONFIGURATION_FILE}",
            f"--service={WEBHOOK}",
            f"--port={WEBHOOK_PORT}",
            f"--extender-port={EXTENDER_PORT}",
            *((EXTENDER_ONLY,) if options.webhook.extender_only else ()),
        ),
        port=WEBHOOK_PORT,
        port_name="https",
        scheme="HTTPS",
        more_ports=((_EXTENDER_PORT_NAME, EXTENDER_PORT),),
        replicas=options.webhook.replicas,
        resources=options.webhook.resources,
        configured=True,
        # Its account may write the registrations, so no other account may create a pod with it.
        is_copied=False,
    )
    return [
        *webhook_roles(namespace),
        *objects_that_the_webhook_writes(namespace),
        deployment(program, options, namespace),
        disruption_budget(program, namespace),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata(WEBHOOK, namespace, _WEBHOOK_COMPONENT),
            "spec": {
                "selector": labels(_WEBHOOK_COMPONENT),
                "ports": [
                    {"name": "https", "port": 443, "targetPort": "https"},
                    {"name": _EXTENDER_PORT_NAME, "port": EXTENDER_PORT, "targetPort": _EXTENDER_PORT_NAME},
                ],
            },
        },
        *(() if options.webhook.extender_only is True else _registrations(namespace, configuration)),
    ]


def objects_that_the_webhook_writes(namespace: str) -> list[Object]:
    """Return its Secret and its ConfigMap, without data and type, so that applying them again keeps both."""
    return [
        {"apiVersion": "v1", "kind": kind, "metadata": metadata(name, namespace, _WEBHOOK_COMPONENT)}
        for kind, name in (("Secret", WEBHOOK_SECRET), ("ConfigMap", EVICTION_TURNS_CONFIG_MAP))
    ]


def _registrations(namespace: str, configuration: str) -> list[Object]:
    unguarded = UnguardedEvictions(user_name(DAEMON, namespace), _excluded_namespaces(configuration))
    found = webhook_configurations(ServiceAddress(namespace, WEBHOOK), unguarded=unguarded)
    return [
        {**each, "metadata": metadata(each["metadata"]["name"], "", _WEBHOOK_COMPONENT)} for each in found
    ]


def _excluded_namespaces(configuration: str) -> str:
    """Return the excluded namespaces as a list in CEL. In the chart, that is a placeholder."""
    file = yaml.safe_load(configuration)
    if not isinstance(file, dict):
        return configuration
    plugins = [each for profile in file.get("profiles") or () for each in profile.get("pluginConfig") or ()]
    args = next((each.get("args") or {} for each in plugins if each.get("name") == PLUGIN), {})
    excluded = list(args.get("excludedNamespaces", Policy().excluded_namespaces))
    # Without spaces, as Helm writes it.
    return json.dumps(excluded, separators=(",", ":"))
