"""Image archives: the same files give the same bytes, and readers find what the format promises."""

import gzip
import hashlib
import io
import json
import os
import tarfile
from pathlib import Path

from tools.oci_archive import ImageSettings, layer_of_files, layer_of_tree, write_oci_archive

SETTINGS = ImageSettings(["/program"], ["run"], {"B": "2", "A": "1"})
CREATED = "1970-01-01T00:00:00Z"


def tree(root: Path, order: list[str]) -> Path:
    for name in order:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        os.utime(path, (len(name) + os.getpid(), 1_000_000 + len(order[0])))
    (root / "link").symlink_to("a/first")
    return root


def test_trees_with_the_same_content_are_the_same_layer(tmp_path: Path) -> None:
    """Neither the order in which files were made nor their times count."""
    names = ["a/first", "a/b/second", "third"]
    one, other = tree(tmp_path / "one", names), tree(tmp_path / "other", names[::-1])
    assert layer_of_tree(one) == layer_of_tree(other)
    (other / "third").write_text("changed")
    assert layer_of_tree(one) != layer_of_tree(other)


def test_a_layer_belongs_to_root_and_keeps_modes_and_links(tmp_path: Path) -> None:
    root = tree(tmp_path / "root", ["a/first"])
    (root / "a/first").chmod(0o755)
    with tarfile.open(fileobj=io.BytesIO(layer_of_tree(root))) as layer:
        entries = {entry.name: entry for entry in layer}
    assert list(entries) == ["a", "a/first", "link"]
    assert {(entry.uid, entry.gid, entry.mtime) for entry in entries.values()} == {(0, 0, 0)}
    assert (entries["a/first"].mode, entries["link"].linkname) == (0o755, "a/first")


def test_every_part_of_an_archive_is_named_by_its_digest(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF")
    layer = layer_of_files({"bin/program": program})
    digest = write_oci_archive(tmp_path / "image.tar", "example.org/a:1", [layer], SETTINGS, created=CREATED)
    with tarfile.open(tmp_path / "image.tar") as archive:
        files = {entry.name: archive.extractfile(entry).read() for entry in archive}
    for name, content in files.items():
        if name.startswith("blobs/"):
            assert name == f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"

    def blob(described):
        return files[f"blobs/sha256/{described['digest'].removeprefix('sha256:')}"]

    (described,) = json.loads(files["index.json"])["manifests"]
    assert described["digest"] == digest
    manifest = json.loads(blob(described))
    config = json.loads(blob(manifest["config"]))
    assert gzip.decompress(blob(manifest["layers"][0])) == layer
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    assert config["config"]["User"] == "65532:65532"
    assert config["config"]["Env"] == ["A=1", "B=2"]


def test_two_archives_of_the_same_image_are_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "other"):
        write_oci_archive(tmp_path / name, "example.org/a:1", [b"layer"], SETTINGS, created=CREATED)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
