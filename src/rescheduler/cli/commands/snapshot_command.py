"""`rescheduler snapshot`: a cluster in a file, to plan with later or elsewhere."""

import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rescheduler.cli.cluster_source import (
    EXIT_ERROR,
    ClusterSource,
    cluster_options,
    exit_with_error,
    print_note,
    read_input_file,
)
from rescheduler.cli.safe_output import echo

if TYPE_CHECKING:
    from rescheduler.cluster.sources.cluster_export import ClusterExport

__all__ = ["snapshot"]


@click.command()
@click.argument("file", metavar="FILE")
@click.option("--anonymise", is_flag=True, help="Replace all names, labels and annotations.")
@click.option(
    "--keep",
    multiple=True,
    metavar="WORD",
    help="A name that --anonymise leaves alone, or a label's key with its values; may be repeated.",
)
@cluster_options
def snapshot(file: str, anonymise: bool, keep: tuple[str, ...], cluster: ClusterSource) -> None:
    """Saves the cluster to FILE, or to standard output for -.

    JSON, or YAML if the name says so; gzipped if it ends in .gz. All that matters for planning is in it, with
    the time; environment variables, arguments, secrets and config maps never are.
    """
    if keep and not anonymise:
        raise click.UsageError("--keep is for --anonymise: without it, every name stays")
    saving = _read_cluster(cluster)
    if anonymise:
        saving = saving.without_names(keep)
    _write(saving, file)
    for note in saving.notes:
        print_note(note)
    found = Counter(each["kind"] for each in saving.objects)
    listed = ", ".join(f"{count} {kind}" for kind, count in found.items())
    echo(f"saved {listed or 'nothing'}", err=True)


def _read_cluster(cluster: ClusterSource) -> "ClusterExport":
    from kubevalues.saved_cluster import UnreadableCluster  # noqa: PLC0415
    from rescheduler.cluster.sources.cluster_export import export_of_file, export_of_live  # noqa: PLC0415

    if cluster.saved is None:
        read: ClusterExport = cluster.with_client(None, export_of_live)
        return read
    raw, source = read_input_file(cluster.saved)
    try:
        return export_of_file(raw, source=source)
    except UnreadableCluster as error:
        exit_with_error(str(error), EXIT_ERROR)


def _write(saving: "ClusterExport", file: str) -> None:
    from rescheduler.cluster.sources.cluster_export import encode_export  # noqa: PLC0415

    if file == "-":
        sys.stdout.buffer.write(encode_export(saving, "-"))
        sys.stdout.flush()
        return
    try:
        _write_atomically(Path(file), encode_export(saving, file))
    except (OSError, ValueError) as error:
        exit_with_error(f"{file}: {getattr(error, 'strerror', None) or error}", EXIT_ERROR)


def _write_atomically(path: Path, content: bytes) -> None:
    """In the place of what was there only when it is complete. Readable for its owner alone."""
    if path.exists() and not path.is_file():
        path.write_bytes(content)  # a pipe or a device
        return
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(content)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
