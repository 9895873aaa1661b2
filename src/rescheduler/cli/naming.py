"""Objects are named as for kubectl: with -n NAMESPACE, or as NAMESPACE/NAME."""

import click

from rescheduler.cli.looking import Looking

__all__ = ["key_of_name", "namespace_option"]

namespace_option = click.option(
    "-n", "--namespace", metavar="NAME", help="Namespace; the context's if not given."
)


def key_of_name(name: str, namespace: str | None, looking: Looking) -> str:
    """`namespace/name`."""
    if "/" not in name:
        return f"{namespace or looking.default_namespace()}/{name}"
    if namespace is not None and not name.startswith(f"{namespace}/"):
        raise click.UsageError(f"{name} and -n {namespace} name two namespaces")
    return name
