"""`rescheduler manifests`: what to install, as YAML for kubectl."""

from typing import TYPE_CHECKING, Any

import click

from rescheduler.cli.looking import USAGE_ERROR, file_bytes, give_up
from rescheduler.cli.safe_output import echo

if TYPE_CHECKING:
    from rescheduler.install.options import Options

__all__ = ["manifests"]


def _namespace(_ctx: click.Context, _option: click.Parameter, value: str) -> str:
    from rescheduler.config.values import Refused, namespace  # noqa: PLC0415

    rule = namespace()
    try:
        rule.read(value)
    except Refused:
        raise click.BadParameter(f'"{value}" is not allowed: {rule.allowed}') from None
    return value


@click.command()
@click.option("--crd", is_flag=True, help="Only the definition of PodMigration.")
@click.option(
    "--extender",
    type=click.Choice(["beside", "instead"]),
    is_flag=False,
    flag_value="beside",
    help="Only the configuration of a kube-scheduler that asks our extender: with its profile beside the "
    "default one (if nothing is said), or instead of it.",
)
@click.option(
    "--namespace",
    "-n",
    metavar="NAME",
    default="rescheduler",
    show_default=True,
    callback=_namespace,
    help="Where to.",
)
@click.option(
    "--create-namespace",
    is_flag=True,
    help="With the namespace itself, for a cluster that does not have it yet.",
)
@click.option("--image", metavar="IMAGE:TAG", help="The image to run.  [default: rescheduler:VERSION]")
@click.option("--config", metavar="FILE", help="The configuration file to install; by default all defaults.")
@click.option("--without-webhook", is_flag=True, help="Without what steers replacements of evicted pods.")
@click.option(
    "--without-policies",
    is_flag=True,
    help="Without the ValidatingAdmissionPolicies that restrict our service accounts.",
)
@click.option("--values", metavar="FILE", help="Everything else that the Helm chart lets one choose.")
def manifests(  # noqa: PLR0913 - one per option
    *,
    crd: bool,
    extender: str | None,
    namespace: str,
    create_namespace: bool,
    image: str | None,
    config: str | None,
    without_webhook: bool,
    without_policies: bool,
    values: str | None,
) -> None:
    """Prints all that is to be installed, for kubectl.

    rescheduler manifests --create-namespace | kubectl apply -f -
    """
    if crd and extender is not None:
        raise click.UsageError("--crd and --extender exclude each other: each prints one thing only")
    if crd:
        from rescheduler.migrations.definition import definition  # noqa: PLC0415

        _print([definition()])
    elif extender is not None:
        from rescheduler.install.extender import Profiles, scheduler_configuration  # noqa: PLC0415

        _print([scheduler_configuration(Profiles(extender), namespace=namespace)])
    else:
        from rescheduler.install.daemon import configuration_text  # noqa: PLC0415
        from rescheduler.install.objects import installed  # noqa: PLC0415

        chosen = _options(values, image)
        if without_webhook:
            chosen = _without(chosen, "webhook")
        if without_policies:
            chosen = _without(chosen, "admission_policies")
        if config is not None:
            text = _checked(*file_bytes(config))
        else:
            text = _checked(configuration_text(chosen).encode(), f"args in {values}")
        _print(installed(chosen, namespace=namespace, configuration=text, create_namespace=create_namespace))


def _options(values: str | None, image: str | None) -> "Options":
    """Ends the program if the values are not such."""
    import msgspec  # noqa: PLC0415
    import yaml  # noqa: PLC0415

    from rescheduler.install.options import Options  # noqa: PLC0415
    from rescheduler.model.bounded_yaml import load_yaml  # noqa: PLC0415

    options = Options()
    if values is not None:
        try:
            options = msgspec.convert(load_yaml(file_bytes(values)[0]) or {}, Options)
        except yaml.YAMLError as error:
            give_up(f"{values} is not YAML: {' '.join(str(error).split())}", USAGE_ERROR)
        except msgspec.ValidationError as error:
            give_up(f"{values}: {error}. See deploy/helm/values.yaml for what there is.", USAGE_ERROR)
    if image is not None:
        repository, colon, tag = image.rpartition(":")
        if not colon or "/" in tag:
            raise click.BadParameter(f'"{image}" is not of the form IMAGE:TAG', param_hint="--image")
        changed = msgspec.structs.replace(options.image, repository=repository, tag=tag)
        options = msgspec.structs.replace(options, image=changed)
    return options


def _without(options: "Options", part: str) -> "Options":
    import msgspec  # noqa: PLC0415

    return msgspec.structs.replace(
        options, **{part: msgspec.structs.replace(getattr(options, part), enabled=False)}
    )


def _checked(content: bytes, source: str) -> str:
    """A configuration with which the daemon starts; ends the program if it is none."""
    from rescheduler.config.faults import ConfigurationError  # noqa: PLC0415
    from rescheduler.config.loading import load_content  # noqa: PLC0415
    from rescheduler.config.strategies import known_strategies  # noqa: PLC0415

    try:
        load_content(content, known_strategies(), source=source)
    except ConfigurationError as error:
        give_up(str(error), USAGE_ERROR)
    return content.decode()


def _print(items: list[dict[str, Any]]) -> None:
    from rescheduler.install.printing import as_yaml  # noqa: PLC0415

    echo(as_yaml(*items), nl=False)
