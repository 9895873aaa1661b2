"""Write OCI image archives without a registry and without a container engine.

The same files give the same bytes: entries are sorted, owners are root, times are a given one. `podman load`,
`ctr images import` and `skopeo copy oci-archive:` read the result.
"""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["ImageSettings", "layer_of_files", "layer_of_tree", "write_oci_archive"]

_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"


@dataclass(frozen=True)
class ImageSettings:
    """The command, environment and user of a container of the image."""

    entrypoint: Sequence[str]
    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str = "65532:65532"
    labels: Mapping[str, str] = field(default_factory=dict)
    architecture: str = "amd64"


def layer_of_files(files: Mapping[str, Path], *, mtime: int = 0) -> bytes:
    """Return an uncompressed layer with a few executable files, by their paths in the image."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for folder in sorted({str(parent) for name in files for parent in Path(name).parents} - {"."}):
            archive.addfile(_entry(folder, tarfile.DIRTYPE, 0o755, mtime))
        for name, path in sorted(files.items()):
            entry = _entry(name, tarfile.REGTYPE, 0o755, mtime)
            entry.size = path.stat().st_size
            with path.open("rb") as content:
                archive.addfile(entry, content)
    return buffer.getvalue()


def layer_of_tree(root: Path, *, mtime: int = 0) -> bytes:
    """Return an uncompressed layer with everything below a folder; only modes are kept."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(_below(root)):
            name = path.relative_to(root).as_posix()
            if path.is_symlink():
                entry = _entry(name, tarfile.SYMTYPE, 0o777, mtime)
                entry.linkname = str(path.readlink())
                archive.addfile(entry)
            elif path.is_dir():
                archive.addfile(_entry(name, tarfile.DIRTYPE, path.stat().st_mode & 0o7777, mtime))
            elif path.is_file():
                entry = _entry(name, tarfile.REGTYPE, path.stat().st_mode & 0o7777, mtime)
                entry.size = path.stat().st_size
                with path.open("rb") as content:
                    archive.addfile(entry, content)
    return buffer.getvalue()


def write_oci_archive(
    to: Path, reference: str, layers: Sequence[bytes], settings: ImageSettings, *, created: str
) -> str:
    """Write the archive and return the digest of the image's manifest."""
    blobs: dict[str, bytes] = {}

    def add(content: bytes, media_type: str) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    described = [add(gzip.compress(layer, compresslevel=9, mtime=0), _LAYER) for layer in layers]
    config = {
        "created": created,
        "architecture": settings.architecture,
        "os": "linux",
        "config": {
            "User": settings.user,
            "Env": [f"{name}={value}" for name, value in sorted(settings.environment.items())],
            "Entrypoint": [*settings.entrypoint],
            "Cmd": [*settings.command],
            "Labels": dict(sorted(settings.labels.items())),
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(x).hexdigest()}" for x in layers]},
        "history": [{"created": created, "created_by": "tools/oci_archive.py"} for _ in layers],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": add(_json(config), _CONFIG),
        "layers": described,
    }
    top = add(_json(manifest), _MANIFEST)
    names = {
        "io.containerd.image.name": reference,
        "org.opencontainers.image.ref.name": reference.rpartition(":")[2],
    }
    platform = {"architecture": settings.architecture, "os": "linux"}
    index = {
        "schemaVersion": 2,
        "mediaType": _INDEX,
        "manifests": [top | {"platform": platform, "annotations": names}],
    }
    files = {"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": _json(index)}
    files |= {f"blobs/sha256/{digest}": content for digest, content in blobs.items()}
    partial = to.with_name(f".{to.name}.partial")
    with tarfile.open(partial, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(files.items(), key=lambda item: (item[0].startswith("blobs"), item[0])):
            entry = _entry(name, tarfile.REGTYPE, 0o644, 0)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    partial.replace(to)
    return str(top["digest"])


def _entry(name: str, kind: bytes, mode: int, mtime: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.mtime = kind, mode, mtime
    return entry


def _below(root: Path) -> Iterator[Path]:
    for path in root.iterdir():
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _below(path)


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
