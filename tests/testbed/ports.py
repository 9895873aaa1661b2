"""Free ports on loopback, and a check that the expected process listens on a port.

Ports are taken from below the range that the kernel gives to outgoing connections, so that none is lost to
a connection between the probe and the start. Another testbed may still be quicker; then the start is tried
again with others.
"""

import random
import socket
import time
from pathlib import Path

__all__ = ["free_ports", "is_free", "listens", "wait_free"]

_LOWEST, _HIGHEST = 20_000, 32_000
_TRIES = 200
_LISTENING = "0A"


def free_ports(count: int) -> tuple[int, ...]:
    found: set[int] = set()
    for port in random.sample(range(_LOWEST, _HIGHEST), _TRIES):
        if is_free(port):
            found.add(port)
        if len(found) == count:
            return tuple(found)
    raise OSError(f"no {count} free ports between {_LOWEST} and {_HIGHEST} on 127.0.0.1 after {_TRIES} tries")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As Go's listeners do: connections that were closed a moment ago don't hold a port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def wait_free(port: int, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_free(port):
        if time.monotonic() > deadline:
            raise TimeoutError(f"port {port} on 127.0.0.1 is still in use after {timeout_s:.0f} s")
        time.sleep(0.05)


def listens(pid: int, port: int) -> bool:
    """Whether this process, and no other, accepts connections on the port: answers are its own."""
    inodes = _listening_inodes(port)
    return bool(inodes) and bool(inodes & _socket_inodes(pid))


def _listening_inodes(port: int) -> set[str]:
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(fields[9])
    return found


def _socket_inodes(pid: int) -> set[str]:
    found = set()
    folder = Path(f"/proc/{pid}/fd")
    try:
        for descriptor in folder.iterdir():
            try:
                target = str(descriptor.readlink())
            except FileNotFoundError:
                continue
            if target.startswith("socket:["):
                found.add(target[len("socket:[") : -1])
    except (FileNotFoundError, ProcessLookupError):
        return set()
    return found
