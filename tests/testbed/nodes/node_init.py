"""The first process of a node: `python -m tests.testbed.nodes.node_init SETTINGS`, in namespaces of its own.

It turns a view of the machine's file system into a node's: its own /proc, /run and control groups, and its
own disk for what a node writes. Then it starts containerd, kubelet and kube-proxy and reaps what they leave
behind. When it ends, the kernel ends everything in the node.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.testbed.nodes.node_cgroups import hierarchies, is_unified
from tests.testbed.nodes.node_config import NodeSettings, node_files

__all__ = ["main"]

DISK = Path("/run/testbed-disk")
_OVERLAID = ("etc", "opt", "var/lib", "var/log")
# The kubelet sets these for the whole machine, so it gets files of its own to write to.
_SYSCTLS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
}
_CONTAINERD_WITHIN_S = 60.0


def main(settings: Path) -> None:
    node = NodeSettings.read(settings)
    _mounts(node)
    _control_groups()
    _run("hostname", node.name)
    _network(node)
    for name, content in node_files(node).items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    logs = Path(node.folder)
    _start(["containerd"], logs / "containerd.log", node)
    _wait_for_containerd(node)
    _start(_kubelet(node), logs / "kubelet.log", node)
    _start(["kube-proxy", "--config=/etc/testbed/kube-proxy.json"], logs / "kube-proxy.log", node)
    (logs / "started").touch()
    _reap()


def _mounts(node: NodeSettings) -> None:
    _run("mount", "--make-rshared", "/")
    _run("mount", "-t", "proc", "proc", "/proc")
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    DISK.mkdir()
    _run("mount", "-o", "loop", node.disk, str(DISK))
    for name, value in _SYSCTLS.items():
        _replace(Path("/proc/sys", name), f"{value}\n")
    _replace(Path("/proc/meminfo"), _meminfo(node.memory_bytes))
    for name in _OVERLAID:
        upper, work = DISK / name / "upper", DISK / name / "work"
        upper.mkdir(parents=True, exist_ok=True)
        work.mkdir(exist_ok=True)
        options = f"lowerdir=/{name},upperdir={upper},workdir={work}"
        _run("mount", "-t", "overlay", "overlay", "-o", options, f"/{name}")
    for name in ("containerd", "kubelet"):
        # Not on the overlay: containerd makes overlays of its own here, and the kubelet measures this disk.
        (DISK / name).mkdir(exist_ok=True)
        Path("/var/lib", name).mkdir(exist_ok=True)
        _run("mount", "--bind", str(DISK / name), f"/var/lib/{name}")
    _run("mount", "--make-rshared", "/")


def _replace(path: Path, content: str) -> None:
    """Put a file of the node's own in the place of one of the machine's."""
    own = Path("/run/testbed-proc", *path.parts[1:])
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(content)
    _run("mount", "--bind", str(own), str(path))


def _meminfo(total_bytes: int) -> str:
    """The kubelet reads the node's capacity from here; what is used it reads from the control group."""
    total = total_bytes // 1024
    rows = {"MemTotal": total, "MemFree": total, "MemAvailable": total, "SwapTotal": 0, "SwapFree": 0}
    return "".join(f"{name + ':':<16}{value:>8} kB\n" for name, value in rows.items())


def _control_groups() -> None:
    """Mount the hierarchies again: in a control group namespace, our own group is their root."""
    trees, unified = hierarchies(), is_unified()
    if unified:
        _run("mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup")
        _own_leaf(Path("/sys/fs/cgroup"))
        return
    _run("mount", "-t", "tmpfs", "cgroup", "/sys/fs/cgroup")
    for name, path in trees.items():
        path.mkdir()
        options = "none,name=systemd" if name == "systemd" else name
        _run("mount", "-t", "cgroup", "-o", options, "cgroup", str(path))


def _own_leaf(root: Path) -> None:
    """Move to a group of our own: in version 2, a group with processes passes no controllers to its
    children.
    """
    (root / "init").mkdir(exist_ok=True)
    for pid in (root / "cgroup.procs").read_text().split():
        (root / "init" / "cgroup.procs").write_text(pid)
    controllers = (root / "cgroup.controllers").read_text().split()
    (root / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))


def _network(node: NodeSettings) -> None:
    while subprocess.run(["ip", "link", "show", "eth0"], capture_output=True, check=False).returncode != 0:
        time.sleep(0.02)  # the other end of the cable is put in from outside
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "addr", "add", f"{node.address}/24", "dev", "eth0")
    _run("ip", "link", "set", "eth0", "up")
    _run("ip", "route", "add", "default", "via", node.gateway)
    for network, via in node.routes.items():
        _run("ip", "route", "add", network, "via", via)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _kubelet(node: NodeSettings) -> list[str]:
    labels = ",".join(f"{name}={value}" for name, value in sorted(node.labels.items()))
    return [
        "kubelet",
        "--config=/etc/testbed/kubelet.json",
        f"--kubeconfig={node.kubeconfig}",
        f"--hostname-override={node.name}",
        f"--node-ip={node.address}",
        "--root-dir=/var/lib/kubelet",
        "--cert-dir=/var/lib/kubelet/pki",
        *([f"--node-labels={labels}"] if labels else []),
    ]


def _wait_for_containerd(node: NodeSettings) -> None:
    deadline = time.monotonic() + _CONTAINERD_WITHIN_S
    while subprocess.run(
        ["ctr", "version"], capture_output=True, check=False, env=node.environment
    ).returncode:
        if time.monotonic() > deadline:
            raise TimeoutError(f"containerd on {node.name} did not answer; see {node.folder}/containerd.log")
        time.sleep(0.05)


def _start(command: list[str], log: Path, node: NodeSettings) -> None:
    with log.open("ab") as output:
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=node.environment
        )


def _reap() -> None:
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"`{' '.join(command)}` ended with {done.returncode}: {done.stderr.strip()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
