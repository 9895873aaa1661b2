"""What is built and how, as data.

Kubernetes' own build scripts tell the linker the version; a plain `go build` reports v0.0.0-master. The
module proxy need not tell the git commit of a release, so the module's checksum stands in its place: it
names the same sources, just as exactly.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "GO_ENVIRONMENT",
    "KUBERNETES_BINARIES",
    "MODULE_FOLDER",
    "NODE_MODULE_FOLDER",
    "NODE_PACKAGES",
    "NODE_PROGRAMS",
    "NODE_RECIPE",
    "PEER_MODULE_FOLDER",
    "PEER_PROGRAMS",
    "PEER_RECIPE",
    "RECIPE",
    "GoProgram",
    "arguments_for",
    "build_arguments",
    "kubernetes_checksum",
    "kubernetes_version",
    "package_of",
]

MODULE_FOLDER = Path(__file__).resolve().parent / "control-plane"
NODE_MODULE_FOLDER = MODULE_FOLDER.with_name("node-programs")
PEER_MODULE_FOLDER = MODULE_FOLDER.with_name("peers")
KUBERNETES_BINARIES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")

# readonly: a build that would need another go.sum must fail, not change it.
GO_ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
# As in Kubernetes' own releases: without them test helpers and gRPC's tracing pages are linked in.
_TAGS = "-tags=notest,grpcnotrace"
_FLAGS = ("-trimpath", "-buildvcs=false", _TAGS)
_STRIP = "-s -w"
_VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")

RECIPE = json.dumps(
    [KUBERNETES_BINARIES, GO_ENVIRONMENT, _FLAGS, _STRIP, _VERSION_PACKAGES, "etcd-server"]
).encode()


@dataclass(frozen=True)
class GoProgram:
    """A program to compile, and the folder of the module it is compiled in."""

    package: str
    folder: Path = NODE_MODULE_FOLDER


_CONTAINERD = "github.com/containerd/containerd/v2"
NODE_PROGRAMS = {
    "kubelet": GoProgram("k8s.io/kubernetes/cmd/kubelet", MODULE_FOLDER),
    "kube-proxy": GoProgram("k8s.io/kubernetes/cmd/kube-proxy", MODULE_FOLDER),
    "containerd": GoProgram(f"{_CONTAINERD}/cmd/containerd"),
    "containerd-shim-runc-v2": GoProgram(f"{_CONTAINERD}/cmd/containerd-shim-runc-v2"),
    "ctr": GoProgram(f"{_CONTAINERD}/cmd/ctr"),
    "coredns": GoProgram("./cmd/coredns"),
    "pause": GoProgram("./cmd/pause"),
    "webapp": GoProgram("./cmd/webapp"),
    "loadgen": GoProgram("./cmd/loadgen"),
}
# Each with the libraries that it needs and a plain Debian doesn't have.
NODE_PACKAGES = (
    "runc",
    "libseccomp2",
    "containernetworking-plugins",
    "nftables",
    "libnftables1",
    "libnftnl11",
    "libmnl0",
    "libjansson4",
    "libedit2",
    "conntrack",
    "libnetfilter-conntrack3",
    "libnfnetlink0",
)
# The storage drivers that need C libraries; the nodes use overlayfs.
_NODE_FLAGS = ("-trimpath", "-buildvcs=false", "-tags=no_btrfs,no_devmapper,no_zfs")
NODE_RECIPE = json.dumps(
    [
        {name: (program.package, program.folder.name) for name, program in NODE_PROGRAMS.items()},
        NODE_PACKAGES,
        GO_ENVIRONMENT,
        _FLAGS,
        _NODE_FLAGS,
        _STRIP,
    ]
).encode()

# Other projects' programs that evict pods, unmodified.
PEER_PROGRAMS = {
    "karpenter": GoProgram("sigs.k8s.io/karpenter/kwok", PEER_MODULE_FOLDER),
    "descheduler": GoProgram("sigs.k8s.io/descheduler/cmd/descheduler", PEER_MODULE_FOLDER),
}
_PEER_FLAGS = ("-trimpath", "-buildvcs=false")
PEER_RECIPE = json.dumps(
    [{name: program.package for name, program in PEER_PROGRAMS.items()}, GO_ENVIRONMENT, _PEER_FLAGS, _STRIP]
).encode()


def arguments_for(program: GoProgram, build_date: str) -> list[str]:
    """The flags of `go build` for a program of one of our modules."""
    if program.folder == MODULE_FOLDER:
        return build_arguments(build_date)
    if program.folder == PEER_MODULE_FOLDER:
        return [*_PEER_FLAGS, "-ldflags", _STRIP]
    return [*_NODE_FLAGS, "-ldflags", _STRIP]


def package_of(binary: str) -> str:
    return f"k8s.io/kubernetes/cmd/{binary}"


def kubernetes_version() -> str:
    """The pinned release, such as v1.37.1."""
    return _only(r"^\s*(?:require )?k8s\.io/kubernetes (v\S+)", "go.mod")


def kubernetes_checksum() -> str:
    return _only(r"^k8s\.io/kubernetes v[^\s/]+ (h1:\S+)", "go.sum")


def build_arguments(build_date: str) -> list[str]:
    """The flags of `go build`, the same for every binary."""
    version = kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".", 2)
    reported = {
        "gitVersion": version,
        "gitMajor": major,
        "gitMinor": minor,
        "gitCommit": kubernetes_checksum(),
        "gitTreeState": "clean",
        "buildDate": build_date,
    }
    values = [
        f"-X {package}.{name}={value}" for package in _VERSION_PACKAGES for name, value in reported.items()
    ]
    return [*_FLAGS, "-ldflags", " ".join([_STRIP, *values])]


def _only(pattern: str, file_name: str) -> str:
    text = (MODULE_FOLDER / file_name).read_text()
    found = re.findall(pattern, text, flags=re.MULTILINE)
    if len(found) != 1:
        raise ValueError(
            f"{MODULE_FOLDER / file_name}: expected k8s.io/kubernetes once, found it {len(found)} times"
        )
    return str(found[0])
