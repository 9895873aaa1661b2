"""What is built and how, as data: the part of a build that decides what comes out.

Kubernetes' own build scripts tell the linker the version; a plain `go build` reports v0.0.0-master. The
module proxy need not tell the git commit of a release, so the module's checksum stands in its place: it
names the same sources, just as exactly.
"""

import json
import re
from pathlib import Path

__all__ = [
    "GO_ENVIRONMENT",
    "KUBERNETES_BINARIES",
    "MODULE_FOLDER",
    "RECIPE",
    "build_arguments",
    "kubernetes_checksum",
    "kubernetes_version",
    "package_of",
]

MODULE_FOLDER = Path(__file__).resolve().parent / "control-plane"
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
    told = {
        "gitVersion": version,
        "gitMajor": major,
        "gitMinor": minor,
        "gitCommit": kubernetes_checksum(),
        "gitTreeState": "clean",
        "buildDate": build_date,
    }
    values = [f"-X {package}.{name}={value}" for package in _VERSION_PACKAGES for name, value in told.items()]
    return [*_FLAGS, "-ldflags", " ".join([_STRIP, *values])]


def _only(pattern: str, file_name: str) -> str:
    text = (MODULE_FOLDER / file_name).read_text()
    found = re.findall(pattern, text, flags=re.MULTILINE)
    if len(found) != 1:
        raise ValueError(
            f"{MODULE_FOLDER / file_name}: expected k8s.io/kubernetes once, found it {len(found)} times"
        )
    return str(found[0])
