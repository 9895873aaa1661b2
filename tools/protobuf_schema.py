"""Write `*_pb2.py` and `*_pb2.pyi` from the `.proto` files in `rescheduler/kube/codecs`.

    python -m tools.protobuf_schema            write them
    python -m tools.protobuf_schema --check    exit 1 if they would change

Needs grpcio-tools, a development dependency. The generated files are committed.
"""

import sys
import tempfile
from pathlib import Path

__all__ = ["main"]

SOURCE_ROOT = Path(__file__).resolve().parents[1] / "src"
"""The include path: relative to it, the generated modules import each other by their full names."""
CODECS = SOURCE_ROOT / "rescheduler/kube/codecs"


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print("usage: protobuf_schema [--check]", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        if compile_into(Path(scratch)) != 0:
            return 1
        fresh = {path.name: _marked(path) for path in Path(scratch).rglob("*_pb2.py*")}
    if not arguments:
        for name, content in fresh.items():
            (CODECS / name).write_bytes(content)
        return 0
    present = {path.name: path.read_bytes() for path in CODECS.glob("*_pb2.py*")}
    stale = sorted(name for name in fresh.keys() | present.keys() if fresh.get(name) != present.get(name))
    if stale:
        print(f"{', '.join(stale)} don't match the .proto files: run `make generate`", file=sys.stderr)
        return 1
    return 0


def _marked(path: Path) -> bytes:
    """Return the generated file; stubs are exempt from type checks, the code that uses them is not."""
    content = path.read_bytes()
    return b"# mypy: ignore-errors\n" + content if path.suffix == ".pyi" else content


def compile_into(target: Path) -> int:
    """Run protoc on all schemas; return its exit code."""
    from grpc_tools import protoc  # type: ignore[import-untyped]  # noqa: PLC0415 - only developers have it

    protos = sorted(str(path.relative_to(SOURCE_ROOT)) for path in CODECS.glob("*.proto"))
    command = ["protoc", f"-I{SOURCE_ROOT}", f"--python_out={target}", f"--pyi_out={target}", *protos]
    return int(protoc.main(command))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
