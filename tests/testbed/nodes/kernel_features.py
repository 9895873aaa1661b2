"""Check what real nodes need of the machine by trying it, not by versions."""

import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.testbed.nodes.node_cgroups import hierarchies

__all__ = ["missing_features"]

_TOOLS = {
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "ip": "iproute2",
    "tc": "iproute2",
    "mkfs.ext4": "e2fsprogs",
    "losetup": "util-linux",
}

# NAT and connection tracking, as kube-proxy uses them. Nodes bring their own nft; where the machine has none,
# what the kernel says of itself has to do.
_NFTABLES = """
command -v nft > /dev/null || exec grep -q nf_tables /proc/kallsyms
nft 'table ip t { chain c { type nat hook prerouting priority 0; ct state new dnat to 10.0.0.1; } }'
"""


def missing_features(folder: Path) -> list[str]:
    """Say what real nodes in this folder lack here; empty if they can run."""
    if platform.system() != "Linux":
        return [f"Linux: this is {platform.system()}"]
    if os.geteuid() != 0:
        return ["root: namespaces, mounts and cgroups of nodes need it; run with sudo"]
    lacking = [f"{tool}: apt-get install {of}" for tool, of in _TOOLS.items() if not shutil.which(tool)]
    if lacking:
        return lacking
    if not hierarchies():
        lacking.append("cgroups: no hierarchy with cpu, memory and pids is mounted below /sys/fs/cgroup")
    with tempfile.TemporaryDirectory(dir=folder, prefix=".features-") as name:
        for what, script in _trials(Path(name)).items():
            if why := _failure(script):
                lacking.append(f"{what}: {why}")
    return lacking


def _trials(folder: Path) -> dict[str, str]:
    """A feature, and a script in throwaway namespaces that fails without it."""
    disk = f"truncate -s 64M {folder}/disk && mkfs.ext4 -q -F {folder}/disk && mkdir -p {folder}/mnt && "
    disk += f"mount -o loop {folder}/disk {folder}/mnt"
    options = "lowerdir=l,upperdir=u,workdir=w"
    layers = f"cd {folder}/mnt && mkdir l u w m && mount -t overlay overlay -o {options} m"
    return {
        "namespaces (mount, net, uts, ipc, pid, cgroup)": "true",
        "loop devices": disk,
        "overlayfs": f"{disk} && {layers}",
        "veth": "ip link add probe0 type veth peer name probe1",
        "bridge": "ip link add probe0 type bridge",
        "nftables": _NFTABLES,
    }


def _failure(script: str) -> str:
    command = ["unshare", "--mount", "--net", "--uts", "--ipc", "--pid", "--cgroup", "--fork", "--kill-child"]
    done = subprocess.run(
        [*command, "sh", "-ec", script], capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode == 0:
        return ""
    return (done.stderr.strip().splitlines() or [f"the trial ended with {done.returncode}"])[-1]
