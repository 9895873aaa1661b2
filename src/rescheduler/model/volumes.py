"""The volumes of a pod, as far as they bind it to a place or hold data of its own."""

from typing import Final

import msgspec

__all__ = ["CLAIM", "EMPTY_DIR", "HOST_PATH", "Volume"]

CLAIM: Final = "persistentVolumeClaim"
EMPTY_DIR: Final = "emptyDir"
HOST_PATH: Final = "hostPath"


class Volume(msgspec.Struct, frozen=True, gc=False):
    """Volumes that only bring configuration (config maps, secrets, tokens, images) are not recorded."""

    kind: str
    """The name of its source in the API. A generic ephemeral volume counts as the claim made for it."""
    name: str = ""
    """What it refers to: the claim, the disk, the path, the CSI driver, `pool/image`, the medium."""
    read_only: bool = False
    monitors: tuple[str, ...] = ()
    """Of a Ceph RBD: two images are the same if they share a monitor, the pool and the name."""
    ephemeral: bool = False
    """A claim that is made for this pod and goes with it."""
