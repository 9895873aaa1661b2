"""Kubernetes' own protobuf schemas, of the very release that the control plane is built from.

They come with the Go modules. A machine whose control plane was built elsewhere may not have them: `go` then
downloads the two modules that are needed, checked against our go.sum.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool

from tests.testbed.recipe import GO_ENVIRONMENT, MODULE_FOLDER

__all__ = ["comments", "compiled", "upstream_messages"]

FILES = (
    "k8s.io/apimachinery/pkg/runtime/generated.proto",
    "k8s.io/apimachinery/pkg/api/resource/generated.proto",
    "k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto",
    "k8s.io/api/core/v1/generated.proto",
    "k8s.io/api/apps/v1/generated.proto",
)


@cache
def upstream_messages() -> dict[str, Descriptor]:
    """Return the messages by their Go names; of two packages with the same name, the first one above
    counts.
    """
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        (root / "k8s.io").mkdir()
        for module, folder in _module_folders():
            (root / module).symlink_to(folder)
        files = compiled(root, *FILES)
    pool = DescriptorPool()
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
    found: dict[str, Descriptor] = {}
    for name in FILES:
        for message in pool.FindFileByName(name).message_types_by_name.values():
            found.setdefault(message.name, message)
    return found


def compiled(root: Path, *files: str) -> FileDescriptorSet:
    """These schemas and all they import, with their comments."""
    with tempfile.NamedTemporaryFile() as out:
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{root}", f"--descriptor_set_out={out.name}"]
        command += ["--include_imports", "--include_source_info", *files]
        subprocess.run(command, check=True)
        return FileDescriptorSet.FromString(Path(out.name).read_bytes())


def comments(files: FileDescriptorSet) -> Iterator[tuple[DescriptorProto, str]]:
    """Each message at the top of a file, with what stands above it."""
    for file in files.file:
        for place in file.source_code_info.location:
            if len(place.path) == 2 and place.path[0] == 4:  # 4: message_type, then its index
                yield file.message_type[place.path[1]], place.leading_comments


def _module_folders() -> Iterator[tuple[str, str]]:
    command = ["go", "mod", "download", "-json", "k8s.io/api", "k8s.io/apimachinery"]
    done = subprocess.run(
        command, cwd=MODULE_FOLDER, env={**os.environ, **GO_ENVIRONMENT}, check=True, capture_output=True
    )
    decoder, text = json.JSONDecoder(), done.stdout.decode().strip()
    while text:
        module, end = decoder.raw_decode(text)
        yield module["Path"], module["Dir"]
        text = text[end:].strip()
