"""`rescheduler manifests`: what to install, as YAML for kubectl."""

import click

__all__ = ["manifests"]


@click.command()
@click.option("--crd", is_flag=True, help="Only the definition of PodMigration.")
def manifests(crd: bool) -> None:
    """Prints what to install before pods can be moved, for kubectl."""
    if not crd:
        raise click.UsageError("say --crd: the definition of PodMigration is all there is to print yet")
    import yaml  # noqa: PLC0415

    from rescheduler.migrations.definition import definition  # noqa: PLC0415

    click.echo(yaml.safe_dump(definition(), sort_keys=False, allow_unicode=True), nl=False)
