"""Which installation an object belongs to.

There is one installation per namespace, so the namespace is its id. Everything that is installed carries the
id as a label; cluster-scoped objects also carry it in their names, so that two installations never share one.
The definition of PodMigration is the exception: a cluster has one, whoever installed it.

The label says which objects an installation may remove. It does not say where an installation is: anyone who
may write one namespace can put the label there. See `install.installations` for how one is found.
"""

from typing import Final

__all__ = ["INSTALL_ID", "SHARED", "cluster_scoped_name", "install_id", "install_labels"]

INSTALL_ID: Final = "rescheduler.dev/install-id"

SHARED: Final = "Shared"
"""The id of the definition of PodMigration. No namespace has capital letters in its name."""


def install_id(namespace: str) -> str:
    return namespace


def install_labels(namespace: str) -> dict[str, str]:
    """The labels of every object of the installation in this namespace."""
    return {"app.kubernetes.io/name": "rescheduler", INSTALL_ID: install_id(namespace)}


def cluster_scoped_name(name: str, namespace: str) -> str:
    """Return the name that a cluster-scoped object of the installation in this namespace has.

    With a dot, which no namespace contains: `rescheduler-webhook` in the namespace `a` and `rescheduler` in a
    namespace `webhook-a` stay apart.
    """
    return f"{name}.{namespace}"
