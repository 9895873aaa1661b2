"""Which version of the program this is."""

from importlib.metadata import PackageNotFoundError, version

__all__ = ["our_version"]


def our_version() -> str:
    """Without an installation, as in a bare checkout, nobody knows."""
    try:
        return version("kube-rescheduler")
    except PackageNotFoundError:
        return "unknown"
