"""Defaults of a pod's spec wherever it stands, in a pod or in a template."""

from rescheduler.simulator.admission.defaults.containers import fill_container
from rescheduler.simulator.admission.defaults.filling import fill, inner
from rescheduler.simulator.admission.defaults.volumes import fill_volume
from rescheduler.simulator.exchange import Object

__all__ = ["all_containers", "fill_pod_spec", "fill_template"]


def fill_pod_spec(spec: Object) -> None:
    fill(
        spec,
        restartPolicy="Always",
        dnsPolicy="ClusterFirst",
        schedulerName="default-scheduler",
        terminationGracePeriodSeconds=30,
        securityContext={},
    )
    _fill_service_account(spec)
    for container in all_containers(spec):
        fill_container(container)
    for volume in spec.get("volumes", ()):
        fill_volume(volume)


def _fill_service_account(spec: Object) -> None:
    """`serviceAccount` is the old name of `serviceAccountName`; both are kept."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name


def all_containers(spec: Object) -> list[Object]:
    """Init, regular and ephemeral ones."""
    return [
        container
        for group in ("initContainers", "containers", "ephemeralContainers")
        for container in spec.get(group, ())
    ]


def fill_template(owner_spec: Object) -> None:
    """The pod template of a workload."""
    template = inner(owner_spec, "template")
    fill(template, metadata={})
    fill_pod_spec(inner(template, "spec"))
