"""What a label's key and value may look like.

The predicates answer with what is wrong, in words, or with None.
"""

import re

__all__ = ["label_key_fault", "label_value_fault", "subdomain_fault"]

_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_LONGEST_NAME = 63
_LONGEST_SUBDOMAIN = 253

_NAME_RULE = "letters, digits, '-', '_' and '.', with a letter or digit at both ends"
_SUBDOMAIN_RULE = "lower-case letters, digits, '-' and '.', with a letter or digit at both ends of each part"


def label_key_fault(key: str) -> str | None:
    """A key is a name, or a DNS prefix, a slash and a name: `app`, `example.com/app`."""
    prefix, slash, name = key.rpartition("/")
    if slash:
        if not prefix:
            return "has an empty prefix before '/'"
        if fault := subdomain_fault(prefix):
            return f"has a prefix that {fault}"
    if not name:
        return "has an empty name"
    if len(name) > _LONGEST_NAME:
        return f"has a name of {len(name)} characters; at most {_LONGEST_NAME} are allowed"
    if not _NAME.fullmatch(name):
        return f"has a name with other characters than allowed: {_NAME_RULE}"
    return None


def label_value_fault(value: str) -> str | None:
    """A value is empty, or looks like a key's name."""
    if len(value) > _LONGEST_NAME:
        return f"has {len(value)} characters; at most {_LONGEST_NAME} are allowed"
    if value and not _NAME.fullmatch(value):
        return f"has other characters than allowed: {_NAME_RULE}"
    return None


def subdomain_fault(name: str) -> str | None:
    if len(name) > _LONGEST_SUBDOMAIN:
        return f"has {len(name)} characters; at most {_LONGEST_SUBDOMAIN} are allowed"
    if not _SUBDOMAIN.fullmatch(name):
        return f"has other characters than allowed: {_SUBDOMAIN_RULE}"
    return None
