"""Images of single static programs, for nodes that have no registry to pull from."""

from pathlib import Path

from tools.oci_archive import ImageSettings, layer_of_files, write_oci_archive

__all__ = ["program_image"]

_CREATED = "1970-01-01T00:00:00Z"


def program_image(program: Path, reference: str, folder: Path) -> Path:
    """Write an OCI archive whose only file is the program, which it runs as an unprivileged user."""
    archive = folder / f"{program.name}.tar"
    if not archive.exists():
        layer = layer_of_files({program.name: program})
        write_oci_archive(archive, reference, [layer], ImageSettings([f"/{program.name}"]), created=_CREATED)
    return archive
