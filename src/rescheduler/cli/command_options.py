"""The options and arguments that commands share, named and parsed as in kubectl.

Slow imports are inside the functions, because `--help` imports this module too.
"""

import functools
from collections.abc import Callable, Collection, Mapping
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rescheduler.cli.cluster_source import EXIT_ERROR, ClusterSource, exit_with_error, print_note
from rescheduler.cli.terminal import echo

if TYPE_CHECKING:
    from kubevalues.label_selectors import Selector
    from rescheduler.cluster.snapshot import Snapshot

__all__ = [
    "cluster_and_config_options",
    "cluster_options",
    "confirmed",
    "deployment_key",
    "effective_config_options",
    "existing_key",
    "exit_if_missing",
    "kind_and_name",
    "label_selector",
    "live_cluster_options",
    "namespace_option",
    "near_names",
    "object_key",
    "pods_of_deployment",
    "saved_cluster_options",
]

F = TypeVar("F", bound=Callable[..., Any])


def confirmed(question: str, *, err: bool = False) -> bool:
    """Ask the user and return the answer; Ctrl-C and the end of the input mean no."""
    try:
        return click.confirm(question, default=False, err=err)
    except click.Abort:
        echo(err=True)  # ends the line of the question
        return False


def _parse_time(_ctx: click.Context, _option: click.Parameter, value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        found = datetime.fromisoformat(value)
        found = (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        found = datetime.min.replace(tzinfo=UTC)
    if not MINYEAR < found.year < MAXYEAR:  # the first and the last year overflow in some time zones
        raise click.BadParameter(f'"{value}" is not a time such as 2026-03-02T12:00:00Z')
    return found


_CLUSTER_OPTIONS = (
    click.option(
        "--from", "saved", metavar="FILE", help="Read a saved cluster from FILE (- for standard input)."
    ),
    click.option("--kubeconfig", metavar="FILE", help="Kubeconfig file; defaults to the one kubectl uses."),
    click.option("--context", metavar="NAME", help="Kubeconfig context; defaults to the current one."),
)
_CONFIG_OPTION = click.option(
    "--config",
    metavar="FILE",
    help="Configuration file (docs/configuration.md); without it, all settings have their defaults.",
)
_EFFECTIVE_CONFIG_OPTIONS = (
    click.option(
        "--config",
        metavar="FILE",
        help="Configuration file (docs/configuration.md); defaults to the installed daemon's configuration.",
    ),
    click.option(
        "--defaults", is_flag=True, help="Ignore the installed daemon's configuration and use the defaults."
    ),
)
_TIME_OPTION = click.option(
    "--now",
    metavar="TIME",
    callback=_parse_time,
    help="Time to assume for ages and windows, such as 2026-03-02T12:00:00Z.",
)


def cluster_options(command: F) -> F:
    """Add the options for a live or saved cluster and its configuration, passed as `cluster`."""
    return _with_cluster_source(command, (*_CLUSTER_OPTIONS, *_EFFECTIVE_CONFIG_OPTIONS))


def cluster_and_config_options(command: F) -> F:
    """Add the options for a live or saved cluster, its configuration and the time, passed as `cluster`."""
    return _with_cluster_source(command, (*_CLUSTER_OPTIONS, *_EFFECTIVE_CONFIG_OPTIONS, _TIME_OPTION))


def live_cluster_options(command: F) -> F:
    """Add the options for a live cluster and the configuration, passed as `cluster`."""
    return _with_cluster_source(command, (*_CLUSTER_OPTIONS[1:], _CONFIG_OPTION))


def effective_config_options(command: F) -> F:
    """Add the options for a live cluster and the effective configuration, passed as `cluster`."""
    return _with_cluster_source(command, (*_CLUSTER_OPTIONS[1:], *_EFFECTIVE_CONFIG_OPTIONS))


def saved_cluster_options(command: F) -> F:
    """Add the options for a saved cluster, the configuration and the time, passed as `cluster`."""
    required = click.option(
        "--from",
        "saved",
        metavar="FILE",
        required=True,
        help="Read a saved cluster from FILE (- for standard input).",
    )
    return _with_cluster_source(command, (required, _CONFIG_OPTION, _TIME_OPTION))


def _with_cluster_source(command: F, options: tuple[Callable[[F], F], ...]) -> F:
    @functools.wraps(command)
    def with_cluster(
        *args: Any,
        kubeconfig: str | None = None,
        context: str | None = None,
        saved: str | None = None,
        config: str | None = None,
        now: datetime | None = None,
        defaults: bool = False,
        **more: Any,
    ) -> Any:
        if defaults and config is not None:
            raise click.UsageError("--defaults can't be combined with --config")
        if saved is not None and (kubeconfig or context):
            raise click.UsageError("--from can't be combined with --kubeconfig or --context")
        source = ClusterSource(saved, kubeconfig, context, config, now, defaults=defaults)
        return command(*args, cluster=source, **more)

    decorated: Any = with_cluster
    for option in reversed(options):
        decorated = option(decorated)
    found: F = decorated
    return found


namespace_option = click.option(
    "-n", "--namespace", metavar="NAME", help="Namespace; defaults to the one of the context."
)


_POD_PREFIXES = ("pod/", "pods/", "po/")
_DEPLOYMENT_PREFIXES = ("deploy/", "deployment/", "deployments/", "deployment.apps/")


def object_key(name: str, namespace: str | None, cluster: ClusterSource) -> str:
    """Return `namespace/name` for an object that is named as for kubectl, or as NAMESPACE/NAME.

    `pod/NAME` names a pod. For a pod in a namespace called `pod`, users write `-n pod NAME`.
    """
    for prefix in (*_POD_PREFIXES, "podmigration.rescheduler.dev/", "pmig/"):
        name = name.removeprefix(prefix)
    if "/" not in name:
        return f"{namespace or cluster.default_namespace()}/{name}"
    if namespace is not None and not name.startswith(f"{namespace}/"):
        first = name.partition("/")[0]
        raise click.UsageError(
            f'"{first}" in {name} is neither the namespace {namespace} nor a kind that can be named here'
        )
    return name


def deployment_key(name: str, namespace: str | None, cluster: ClusterSource) -> str | None:
    """Return `namespace/name` of a Deployment that is named as `deploy/NAME`; None for anything else."""
    for prefix in _DEPLOYMENT_PREFIXES:
        if name.startswith(prefix):
            return object_key(name.removeprefix(prefix), namespace, cluster)
    return None


def kind_and_name(kind: str, name: str | None) -> tuple[str, str]:
    """Split `pod/NAME`, as kubectl does, or check `pod NAME`; NAMESPACE/NAME is a pod."""
    if name is None:
        before, slash, after = kind.partition("/")
        if not slash or not after:
            raise click.UsageError("specify a pod or a node: `explain pod NAME` or `explain pod/NAME`")
        kind, name = (before, after) if before in _KINDS else ("pod", kind)
    if kind not in _KINDS:
        raise click.UsageError(f'"{kind}" is not pod, node or deployment')
    return _KINDS[kind], name


_KINDS = {
    **dict.fromkeys(("pod", "pods", "po"), "pod"),
    **dict.fromkeys(("node", "nodes", "no"), "node"),
    **dict.fromkeys(("deployment", "deployments", "deploy", "deployment.apps"), "deployment"),
}
"""The names that kubectl accepts."""


def pods_of_deployment(key: str, snapshot: "Snapshot") -> list[str]:
    """Return the keys of the Deployment's pods; exit if there are none."""
    by_deployment: dict[str, list[str]] = {}
    for pod in snapshot.pods.records:
        revision = f"-{pod.labels.get('pod-template-hash')}"
        owner = pod.owner
        if owner is None or owner.kind != "ReplicaSet" or not owner.name.endswith(revision):
            continue
        if not pod.is_terminating:
            name = owner.name.removesuffix(revision)
            by_deployment.setdefault(f"{pod.namespace}/{name}", []).append(pod.key)
    if key not in by_deployment:
        words = f"Deployment {key} not found, or it has no pods{near_names(key, by_deployment)}"
        exit_with_error(words, EXIT_ERROR)
    return sorted(by_deployment[key])


def label_selector(text: str) -> "Selector":
    """Parse the value of -l, as kubectl does."""
    from kubevalues.label_selectors import SelectorError  # noqa: PLC0415
    from kubevalues.selector_parsers import parse_selector  # noqa: PLC0415

    try:
        return parse_selector(text)
    except SelectorError as error:
        raise click.BadParameter(str(error), param_hint="-l") from None


def existing_key(key: str, known: Collection[str]) -> str:
    """Return the key, or the full key of the only object whose key starts with it.

    `known` are the keys of all objects of the kind. A key that starts none or several of them is returned
    unchanged.
    """
    if key in known:
        return key
    longer = sorted(each for each in known if each.startswith(key))
    if len(longer) == 1:
        print_note(f"{key} is short for {longer[0]}")
        return longer[0]
    return key


def near_names(key: str, known: Collection[str]) -> str:
    """Return `; did you mean …?` for an unknown key, or an empty string if no known key is similar."""
    import difflib  # noqa: PLC0415

    slash, name = key.rpartition("/")[1:]
    # Users often type only the beginning of a name.
    beginnings = sorted({each[: len(key)] for each in known})
    mistyped = difflib.get_close_matches(key, beginnings, n=1, cutoff=0.7)
    found = (
        sorted(each for each in known if each.startswith(key))
        or sorted(each for each in known if slash and f"/{name}" in each)
        or sorted(each for each in known if mistyped and each.startswith(mistyped[0]))
    )
    shown = [*found[:3], f"{len(found) - 3} more"] if len(found) > 3 else found
    names = " or ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))
    return f"; did you mean {names}?" if found else ""


def exit_if_missing(kind: str, key: str, snapshot: "Snapshot") -> None:
    """Exit if the cluster has no such pod or node."""
    known: Mapping[str, int] = snapshot.pods.row if kind == "pod" else snapshot.nodes.row
    if key not in known:
        exit_with_error(f"{kind} {key} not found{near_names(key, known)}", EXIT_ERROR)
