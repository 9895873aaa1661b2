"""`rescheduler config`, `manifests` and `completion`, which set up rescheduler."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rescheduler.cli.cluster_source import EXIT_USAGE_ERROR, exit_with_error, print_note, read_input_file
from rescheduler.cli.terminal import counted, echo

if TYPE_CHECKING:
    from rescheduler.config.policy import Policy
    from rescheduler.install.install_options import Options

__all__ = ["completion", "config", "manifests"]


@click.group()
def config() -> None:
    """All commands print a configuration file."""


@config.command(short_help="Print the effective configuration of a file, or its errors.")
@click.argument("file", metavar="FILE")
def check(file: str) -> None:
    """Print the effective configuration of a file, or all errors in it.

    FILE can be - for standard input. The output is a complete file with every setting; defaults are marked.
    Settings without effect, and plugins that can't be loaded, are reported on standard error. The exit code
    is 2 if FILE is invalid.
    """
    from rescheduler.config.config_document import MAX_CONFIG_BYTES  # noqa: PLC0415 - `--help` must not wait for it
    from rescheduler.config.config_loader import load_content, load_file  # noqa: PLC0415
    from rescheduler.config.config_validation import (  # noqa: PLC0415
        ConfigurationError,
        known_strategies,
    )
    from rescheduler.config.scheduler_file import render_effective  # noqa: PLC0415

    try:
        if file == "-":
            loaded = load_content(
                sys.stdin.buffer.read(MAX_CONFIG_BYTES + 1), known_strategies(), source="standard input"
            )
        else:
            loaded = load_file(Path(file), known_strategies())
    except ConfigurationError as error:
        exit_with_error(str(error), EXIT_USAGE_ERROR)
    for note in loaded.notes:
        print_note(note)
    from rescheduler.strategies.strategy_registry import (  # noqa: PLC0415
        DuplicateStrategy,
        UnusableStrategy,
        strategies_of,
    )

    try:
        found = [
            each for policy in loaded.configuration.policy.every_profile for each in strategies_of(policy)
        ]
    except DuplicateStrategy as error:
        exit_with_error(str(error), EXIT_USAGE_ERROR)
    for fault in dict.fromkeys(str(each.error) for each in found if isinstance(each, UnusableStrategy)):
        print_note(f"no plan has moves of this strategy: {fault}")
    echo(render_effective(loaded.configuration), nl=False)


@config.command()
def show() -> None:
    """Print the defaults as a commented file."""
    from rescheduler.config.scheduler_file import render_defaults  # noqa: PLC0415

    echo(render_defaults(), nl=False)


@config.command("from-descheduler", short_help="Convert a DeschedulerPolicy.")
@click.argument("policy", metavar="POLICY")
def from_descheduler(policy: str) -> None:
    """Convert a DeschedulerPolicy (descheduler/v1alpha2) into a configuration file.

    POLICY is a file, or - for standard input. Comments in the output list what has no counterpart, and why.
    If the policy protects pods in a way that rescheduler can't, the output has dryRun: true. The exit code is
    2 if POLICY is invalid.
    """
    from rescheduler.config.config_validation import ConfigurationError  # noqa: PLC0415
    from rescheduler.config.descheduler_conversion import convert_descheduler_policy  # noqa: PLC0415

    try:
        converted, notes = convert_descheduler_policy(*read_input_file(policy))
    except ConfigurationError as error:
        exit_with_error(str(error), EXIT_USAGE_ERROR)
    if notes:
        print_note(f"{counted(len(notes), 'setting')} without a counterpart, or different: see the comments")
    echo(converted, nl=False)


def _validated_namespace(_ctx: click.Context, _option: click.Parameter, value: str) -> str:
    from rescheduler.config.setting_rules import InvalidSetting, namespace  # noqa: PLC0415

    rule = namespace()
    try:
        rule.read(value)
    except InvalidSetting:
        raise click.BadParameter(f'"{value}" is not allowed: {rule.allowed}') from None
    return value


@click.command()
@click.option("--crd", is_flag=True, help="Print only the PodMigration CRD.")
@click.option(
    "--extender",
    type=click.Choice(["beside", "instead"]),
    is_flag=False,
    flag_value="beside",
    help="Print only the configuration of a kube-scheduler that uses our extender, with our profile beside "
    "the default profile (the default) or instead of it.",
)
@click.option(
    "--namespace",
    "-n",
    metavar="NAME",
    default="rescheduler",
    show_default=True,
    callback=_validated_namespace,
    help="Namespace to install into.",
)
@click.option(
    "--create-namespace",
    is_flag=True,
    help="Also create the namespace.",
)
@click.option("--image", metavar="IMAGE:TAG", help="Image to run.  [default: rescheduler:VERSION]")
@click.option(
    "--config",
    metavar="FILE",
    help="Configuration file to install; without it, all settings but dryRun have their defaults.",
)
@click.option(
    "--execute",
    is_flag=True,
    help="Let the daemon move pods (dryRun: false). Without it, it only plans and counts what it would move.",
)
@click.option(
    "--without-webhook", is_flag=True, help="Omit the webhook that steers replacements of evicted pods."
)
@click.option(
    "--without-policies",
    is_flag=True,
    help="Omit the ValidatingAdmissionPolicies that restrict our service accounts.",
)
@click.option("--values", metavar="FILE", help="Values file of the Helm chart, for all other options.")
def manifests(  # noqa: PLR0913 - one per option
    *,
    crd: bool,
    extender: str | None,
    namespace: str,
    create_namespace: bool,
    image: str | None,
    config: str | None,
    execute: bool,
    without_webhook: bool,
    without_policies: bool,
    values: str | None,
) -> None:
    """rescheduler manifests --create-namespace --image IMAGE | kubectl apply -f -"""
    if crd and extender is not None:
        raise click.UsageError("--crd and --extender can't be combined")
    if execute and config is not None:
        raise click.UsageError("--execute and --config can't be combined: dryRun in the file decides")
    if crd:
        from rescheduler.api.podmigration_crd import podmigration_crd  # noqa: PLC0415

        _print_manifests([podmigration_crd()])
    elif extender is not None:
        from rescheduler.install.manifests import SchedulerProfiles, scheduler_configuration  # noqa: PLC0415

        _print_manifests([scheduler_configuration(SchedulerProfiles(extender), namespace=namespace)])
    else:
        from rescheduler.install.component_manifests import configuration_text  # noqa: PLC0415
        from rescheduler.install.manifests import install_manifests  # noqa: PLC0415

        chosen = _install_options(values, image)
        if execute:
            chosen = _executing(chosen)
        if without_webhook:
            chosen = _disabled(chosen, "webhook")
        if without_policies:
            chosen = _disabled(chosen, "admission_policies")
        if config is not None:
            content, source = read_input_file(config)
            text, policy = _validated_configuration(content, source)
            # The default is a dry run, so a user may expect that the file is one, too.
            if not policy.dry_run:
                print_note(f"the daemon will move pods: {source} has no dryRun: true")
        else:
            text, _ = _validated_configuration(configuration_text(chosen).encode(), f"args in {values}")
        _print_manifests(
            install_manifests(
                chosen, namespace=namespace, configuration=text, create_namespace=create_namespace
            )
        )


def _install_options(values: str | None, image: str | None) -> "Options":
    """Return the values in the file, with the image given on the command line; exit if they are invalid."""
    import msgspec  # noqa: PLC0415
    import yaml  # noqa: PLC0415

    from kubevalues.bounded_yaml import load_yaml  # noqa: PLC0415
    from rescheduler.install.install_options import Options  # noqa: PLC0415

    options = Options()
    if values is not None:
        try:
            options = msgspec.convert(load_yaml(read_input_file(values)[0]) or {}, Options)
        except yaml.YAMLError as error:
            exit_with_error(f"{values} is not YAML: {' '.join(str(error).split())}", EXIT_USAGE_ERROR)
        except msgspec.ValidationError as error:
            exit_with_error(f"{values}: {error}. deploy/helm/values.yaml lists all values.", EXIT_USAGE_ERROR)
    if image is not None:
        repository, colon, tag = image.rpartition(":")
        if not colon or "/" in tag:
            raise click.BadParameter(f'"{image}" does not have the form IMAGE:TAG', param_hint="--image")
        changed = msgspec.structs.replace(options.image, repository=repository, tag=tag)
        options = msgspec.structs.replace(options, image=changed)
    return options


def _executing(options: "Options") -> "Options":
    import msgspec  # noqa: PLC0415

    args = {name: value for name, value in options.args.items() if name != "dryRun"}
    return msgspec.structs.replace(options, dry_run=False, args=args)


def _disabled(options: "Options", part: str) -> "Options":
    import msgspec  # noqa: PLC0415

    return msgspec.structs.replace(
        options, **{part: msgspec.structs.replace(getattr(options, part), enabled=False)}
    )


def _validated_configuration(content: bytes, source: str) -> "tuple[str, Policy]":
    """Return the text of a configuration and its policy; exit if it is invalid."""
    from rescheduler.config.config_loader import load_content  # noqa: PLC0415
    from rescheduler.config.config_validation import (  # noqa: PLC0415
        ConfigurationError,
        known_strategies,
    )

    try:
        policy = load_content(content, known_strategies(), source=source).configuration.policy
    except ConfigurationError as error:
        exit_with_error(str(error), EXIT_USAGE_ERROR)
    return content.decode(), policy


def _print_manifests(items: list[dict[str, Any]]) -> None:
    from rescheduler.install.manifests import as_yaml  # noqa: PLC0415

    echo(as_yaml(*items), nl=False)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """To load the script in every session, add one of these lines to the start-up file of your shell:

    \b
    bash:  source <(rescheduler completion bash)
    zsh:   source <(rescheduler completion zsh)
    fish:  rescheduler completion fish | source
    """
    from click.shell_completion import get_completion_class  # noqa: PLC0415

    program = "rescheduler"
    found = get_completion_class(shell)
    assert found is not None
    from rescheduler.cli import main  # noqa: PLC0415

    echo(found(main, {}, program, f"_{program.upper()}_COMPLETE").source())
