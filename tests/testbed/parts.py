"""The four programs of a control plane, in the order they start."""

from enum import StrEnum

__all__ = ["Part"]


class Part(StrEnum):
    ETCD = "etcd"
    API_SERVER = "kube-apiserver"
    CONTROLLER_MANAGER = "kube-controller-manager"
    SCHEDULER = "kube-scheduler"
