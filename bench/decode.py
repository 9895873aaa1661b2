"""Decode and cache realistic pods: stdlib json to dicts, our JSON and our protobuf to records.

    python -m bench.decode [--pods 30000] [--repeat 3] [--gate]

Every decoder gets the same pods as one list body, in a fresh process of its own, and keeps all of them in
a dict by key. Times are processor time, the best of the repeats; the ratio is against stdlib json in the same
run. With --gate the exit code is 1 if a target is missed: JSON 3 times and protobuf 6 times as fast as stdlib
json, at most 2 KB kept per pod.
"""

import argparse
import ctypes
import gc
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from bench import protobuf_writer, realistic

__all__ = ["main"]

WIRE = Path(__file__).parents[1] / "src" / "rescheduler" / "kube" / "codecs"
UNREAD = Path(__file__).with_name("unread.proto")

AT_LEAST = {"json": 3.0, "protobuf": 6.0}
KEPT_AT_MOST = 2048
BASELINE_PODS = 10_000
"""As dicts a pod takes some 50 KB, so the baseline is measured on fewer of them."""


class Measured(NamedTuple):
    micros: float
    """Per pod."""
    kept: float
    """Bytes per pod that stay in memory once the input is dropped."""
    peak_mb: float


class Line(NamedTuple):
    name: str
    pods: int
    bytes_per_pod: float
    found: Measured


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.decode", description=__doc__.splitlines()[0])
    parser.add_argument("--pods", type=int, default=30_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--gate", action="store_true", help="exit 1 if a target is missed")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--body", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        print(json.dumps(measure(options.measure, options.body, options.pods)))
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        lines = run(Path(scratch), options.pods, options.repeat)
    show(lines)
    missed = list(misses(lines))
    print("\n".join(missed) if missed else "all targets reached")
    return 1 if missed and options.gate else 0


def run(scratch: Path, pods: int, repeat: int) -> list[Line]:
    few = min(pods, BASELINE_PODS)
    print(machine())
    print(f"writing {pods} pods …", flush=True)
    write(scratch, pods, few)
    lines = []
    for name, body, count in (
        ("stdlib json", scratch / "few.json", few),
        ("stdlib json, gc off", scratch / "few.json", few),
        ("json", scratch / "all.json", pods),
        ("protobuf", scratch / "all.protobuf", pods),
    ):
        found = [in_fresh_process(name, body, count) for _ in range(repeat)]
        best = Measured(*(min(figures) for figures in zip(*found, strict=True)))
        lines.append(Line(name, count, body.stat().st_size / count, best))
    return lines


def write(scratch: Path, pods: int, few: int) -> None:
    """The same pods as the body of a list in both encodings, and the first few once more for the baseline."""
    schema = protobuf_writer.schema_from(WIRE / "api.proto", UNREAD)
    head = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":['
    items = scratch / "items"
    with (scratch / "all.json").open("wb") as text, items.open("wb") as raw:
        text.write(head)
        for number, pod in enumerate(realistic.pods(pods), 1):
            text.write((b"," if number > 1 else b"") + json.dumps(pod, separators=(",", ":")).encode())
            encoded = schema.encode("Pod", pod)
            raw.write(b"\x12" + protobuf_writer.varint(len(encoded)) + encoded)
            if number == few:
                end_of_few = text.tell()
        text.write(b"]}")
    with (scratch / "all.json").open("rb") as text:
        (scratch / "few.json").write_bytes(text.read(end_of_few) + b"]}")
    listed = b"\x0a\x03\x12\x017" + items.read_bytes()
    (scratch / "all.protobuf").write_bytes(protobuf_writer.enveloped(listed, "PodList"))


def in_fresh_process(name: str, body: Path, pods: int) -> Measured:
    command = [
        sys.executable,
        "-m",
        "bench.decode",
        "--measure",
        name,
        "--body",
        str(body),
        "--pods",
        str(pods),
    ]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return Measured(*json.loads(answer.stdout))


def measure(name: str, path: Path, pods: int) -> Measured:
    if name == "stdlib json, gc off":
        gc.disable()
    decode = decoder(name)
    body = path.read_bytes()
    before = resident_bytes()
    start = time.process_time()
    cache = decode(body)
    took = time.process_time() - start
    assert len(cache) == pods
    size = len(body)
    del body
    kept = resident_bytes() - before + size
    return Measured(took / pods * 1e6, kept / pods, peak_bytes() / 2**20)


def decoder(name: str) -> Callable[[bytes], dict[Any, Any]]:
    """Measure one way from the body of a list to a dict by key."""
    if name.startswith("stdlib"):
        return lambda body: {
            f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": pod
            for pod in json.loads(body)["items"]
        }
    from rescheduler.cluster.codecs.record_resources import POD_CODEC  # noqa: PLC0415 - not in the baseline's process

    content_type = "application/json" if name == "json" else "application/vnd.kubernetes.protobuf"
    return lambda body: {pod.key: pod for pod in POD_CODEC.decode_page(content_type, body).items}


def resident_bytes() -> int:
    """After giving back what can be given back, so that only what is in use is counted."""
    gc.collect()
    if not sys.platform.startswith("linux"):
        return 0
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak_bytes() -> int:
    """Return the peak of this process alone: `getrusage` includes the parent's peak."""
    if not sys.platform.startswith("linux"):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) * 1024 if found else 0


def machine() -> str:
    """Describe the machine in one line, so that results of different runs can be compared."""
    loop_ms = calibration()
    return f"machine: {loop_ms:.0f} ms for a loop of 5 million additions, load {os.getloadavg()[0]:.1f}"


def calibration() -> float:
    """Milliseconds for work that never changes, to compare machines and moments."""
    start = time.process_time()
    total = 0
    for number in range(5_000_000):
        total += number
    return (time.process_time() - start) * 1000


def show(lines: list[Line]) -> None:
    baseline = lines[0].found.micros
    print(f"{'':22}{'pods':>8}{'bytes/pod':>11}{'µs/pod':>9}{'ratio':>10}{'kept/pod':>11}{'peak':>10}")
    for line in lines:
        found = line.found
        print(
            f"{line.name:22}{line.pods:>8}{line.bytes_per_pod:>11.0f}{found.micros:>9.1f}"
            f"{baseline / found.micros:>10.1f}{found.kept:>9.0f} B{found.peak_mb:>7.0f} MB"
        )


def misses(lines: list[Line]) -> list[str]:
    by_name = {line.name: line.found for line in lines}
    baseline = by_name["stdlib json"].micros
    found = []
    for name, wanted in AT_LEAST.items():
        ratio = baseline / by_name[name].micros
        if ratio < wanted:
            found.append(f"{name} is {ratio:.1f} times as fast as stdlib json; to reach: {wanted:g}")
        if by_name[name].kept > KEPT_AT_MOST:
            found.append(f"{name} keeps {by_name[name].kept:.0f} bytes per pod; to reach: {KEPT_AT_MOST}")
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
