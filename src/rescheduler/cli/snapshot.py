"""`rescheduler snapshot`: a cluster in a file, to plan with later or elsewhere."""

import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rescheduler.cli.looking import DATA_ERROR, Looking, complain, file_bytes, give_up, which_cluster
from rescheduler.cli.safe_output import echo

if TYPE_CHECKING:
    from rescheduler.sources.saving import Saving

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
@which_cluster
def snapshot(file: str, anonymise: bool, keep: tuple[str, ...], looking: Looking) -> None:
    """Saves the cluster to FILE, or to standard output for -.

    JSON, or YAML if the name says so; gzipped if it ends in .gz. All that matters for planning is in it, with
    the time; environment variables, arguments, secrets and config maps never are.
    """
    if keep and not anonymise:
        raise click.UsageError("--keep is for --anonymise: without it, every name stays")
    saving = _saving(looking)
    if anonymise:
        saving = saving.without_names(keep)
    _write(saving, file)
    for note in saving.notes:
        complain(note)
    found = Counter(each["kind"] for each in saving.objects)
    listed = ", ".join(f"{count} {kind}" for kind, count in found.items())
    echo(f"saved {listed or 'nothing'}", err=True)


def _saving(looking: Looking) -> "Saving":
    from rescheduler.model.saved_cluster import UnreadableCluster  # noqa: PLC0415
    from rescheduler.sources.saving import saving_of_file, saving_of_live  # noqa: PLC0415

    if looking.saved is None:
        read: Saving = looking.with_client(None, saving_of_live)
        return read
    raw, source = file_bytes(looking.saved)
    try:
        return saving_of_file(raw, source=source)
    except UnreadableCluster as error:
        give_up(str(error), DATA_ERROR)


def _write(saving: "Saving", file: str) -> None:
    from rescheduler.sources.saving import encoded  # noqa: PLC0415

    if file == "-":
        sys.stdout.buffer.write(encoded(saving, "-"))
        sys.stdout.flush()
        return
    try:
        _write_whole(Path(file), encoded(saving, file))
    except (OSError, ValueError) as error:
        give_up(f"{file}: {getattr(error, 'strerror', None) or error}", DATA_ERROR)


def _write_whole(path: Path, content: bytes) -> None:
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
