"""URLs to which credentials may be sent."""

import ipaddress
from urllib.parse import urlsplit

__all__ = ["is_confidential", "is_loopback"]


def is_confidential(url: str, proxy: str = "") -> bool:
    """Whether nobody on the network can read what is sent to `url`: TLS, or it never leaves this machine."""
    return urlsplit(url).scheme == "https" or (is_loopback(url) and (not proxy or is_loopback(proxy)))


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
