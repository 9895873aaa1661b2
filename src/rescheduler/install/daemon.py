"""The daemon: what watches, decides and moves."""

import yaml

from rescheduler.config.scheduler_file import API_VERSION, KIND, PLUGIN
from rescheduler.install.names import DAEMON, HEALTH_PORT, labels, metadata
from rescheduler.install.options import Options
from rescheduler.install.pods import Program, deployment, disruption_budget
from rescheduler.install.roles import daemon_roles
from rescheduler.kube.resources import Object

__all__ = ["CONFIGURATION_FILE", "configuration_text", "daemon_objects"]

CONFIGURATION_FILE = "rescheduler.yaml"
_COMPONENT = "daemon"


def daemon_objects(options: Options, namespace: str, configuration: str) -> list[Object]:
    """`configuration` is the content of the file."""
    program = Program(
        name=DAEMON,
        component=_COMPONENT,
        command=("run", f"--config=/etc/rescheduler/{CONFIGURATION_FILE}", f"--port={HEALTH_PORT}"),
        port=HEALTH_PORT,
        port_name="metrics",
        scheme="HTTP",
        replicas=options.daemon.replicas,
        resources=options.daemon.resources,
        configured=True,
    )
    return [
        *daemon_roles(namespace),
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata(DAEMON, namespace, _COMPONENT),
            "data": {CONFIGURATION_FILE: configuration},
        },
        deployment(program, options, namespace),
        disruption_budget(program, namespace),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata(DAEMON, namespace, _COMPONENT),
            "spec": {
                "selector": labels(_COMPONENT),
                "ports": [{"name": "metrics", "port": HEALTH_PORT, "targetPort": "metrics"}],
            },
        },
    ]


def configuration_text(options: Options) -> str:
    """The file that says what `args` say, and nothing else."""
    plugin = {"name": PLUGIN, "args": options.args}
    profile = {"schedulerName": "default-scheduler", "pluginConfig": [plugin]}
    file = {"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]}
    return yaml.safe_dump(file, sort_keys=False, allow_unicode=True)
