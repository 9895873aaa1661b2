"""The syntax of names, label keys and other short strings.

Each rule returns the messages about a string, none if it is valid. Results are cached because names repeat.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

__all__ = [
    "NameRule",
    "between",
    "config_key",
    "dns_1035_label",
    "dns_label",
    "dns_subdomain",
    "environment_name",
    "fully_qualified",
    "label_value",
    "path_segment",
    "percentage",
    "port_name",
    "port_number",
    "qualified_name",
]

NameRule = Callable[[str], Sequence[str]]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_DNS_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_PERCENT = "[0-9]+%"


def _form(rule: str, expression: str, *examples: str) -> str:
    quoted = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {quoted}regex used for validation is '{expression}')"


def _too_long(most: int, unit: str = "characters") -> str:
    return f"must be no more than {most} {unit}"


_ENDS = "and must start and end with an alphanumeric character"
_LABEL_FORM = _form(
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ENDS}",
    _LABEL, "my-name", "123-abc",
)  # fmt: skip
_SUBDOMAIN_FORM = _form(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    f"{_ENDS}",
    _SUBDOMAIN, "example.com",
)  # fmt: skip
_DNS_1035_FORM = _form(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character",
    _DNS_1035, "my-name", "abc-123",
)  # fmt: skip
_KEY_FORM = _form(
    f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS}", _KEY, "MyName", "my.name", "123-abc"
)
_VALUE_FORM = _form(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    f"{_ENDS}",
    _VALUE, "MyValue", "my_value", "12345",
)  # fmt: skip
_CONFIG_KEY_FORM = _form(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    _CONFIG_KEY, "key.name", "KEY_NAME", "key-name",
)  # fmt: skip
_PERCENT_FORM = _form(
    "a valid percent string must be a numeric string followed by an ending '%'", _PERCENT, "1%", "93%"
)

_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_dns_1035 = re.compile(_DNS_1035).fullmatch
_is_key = re.compile(_KEY).fullmatch
_is_value = re.compile(_VALUE).fullmatch
_is_config_key = re.compile(_CONFIG_KEY).fullmatch
_is_percent = re.compile(_PERCENT).fullmatch
_remembered = lru_cache(maxsize=16_384)


@_remembered
def dns_label(text: str) -> tuple[str, ...]:
    complaints = [_too_long(63)] if len(text) > 63 else []
    if not _is_label(text):
        complaints.append("must not contain dots" if _is_subdomain(text) else _LABEL_FORM)
    return tuple(complaints)


@_remembered
def dns_subdomain(text: str) -> tuple[str, ...]:
    complaints = [_too_long(253)] if len(text) > 253 else []
    if not _is_subdomain(text):
        complaints.append(_SUBDOMAIN_FORM)
    return tuple(complaints)


@_remembered
def dns_1035_label(text: str) -> tuple[str, ...]:
    complaints = [_too_long(63)] if len(text) > 63 else []
    if not _is_dns_1035(text):
        complaints.append(_DNS_1035_FORM)
    return tuple(complaints)


@_remembered
def qualified_name(text: str) -> tuple[str, ...]:
    """Check label and annotation keys, finalizers and gates: `example.com/name`, or without the prefix."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        suffix = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return (f"a valid label key {_KEY_FORM}{suffix}",)
    complaints = []
    if slash and not prefix:
        complaints.append("prefix part must be non-empty")
    elif slash:
        complaints += [f"prefix part {complaint}" for complaint in dns_subdomain(prefix)]
    if not name:
        complaints.append("name part must be non-empty")
    elif len(name) > 63:
        complaints.append(f"name part {_too_long(63, 'bytes')}")
    if not _is_key(name):
        complaints.append(f"name part {_KEY_FORM}")
    return tuple(complaints)


@_remembered
def label_value(text: str) -> tuple[str, ...]:
    complaints = [_too_long(63, "bytes")] if len(text) > 63 else []
    if not _is_value(text):
        complaints.append(_VALUE_FORM)
    return tuple(complaints)


@_remembered
def port_name(text: str) -> tuple[str, ...]:
    checks = (
        (len(text) > 15, _too_long(15)),
        (not re.fullmatch("[-a-z0-9]+", text),
         "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
        (not re.search("[a-z]", text), "must contain at least one letter (a-z)"),
        ("--" in text, "must not contain consecutive hyphens"),
        (text.startswith("-") or text.endswith("-"), "must not begin or end with a hyphen"),
    )  # fmt: skip
    return tuple(complaint for broken, complaint in checks if broken)


def between(lowest: int, highest: int) -> str:
    return f"must be between {lowest} and {highest}, inclusive"


def port_number(number: int) -> tuple[str, ...]:
    return () if 1 <= number <= 65_535 else (between(1, 65_535),)


def percentage(text: str) -> tuple[str, ...]:
    return () if _is_percent(text) else (_PERCENT_FORM,)


def _points_upwards(text: str) -> list[str]:
    if text in (".", ".."):
        return [f"must not be '{text}'"]
    return ["must not start with '..'"] if text.startswith("..") else []


@_remembered
def config_key(text: str) -> tuple[str, ...]:
    complaints = [_too_long(253)] if len(text) > 253 else []
    if not _is_config_key(text):
        complaints.append(_CONFIG_KEY_FORM)
    return (*complaints, *_points_upwards(text))


@_remembered
def environment_name(text: str) -> tuple[str, ...]:
    if not text:
        return ("environment variable name must be non-empty",)
    if all(" " <= character <= "~" and character != "=" for character in text):
        return ()
    return (
        "a valid environment variable name must consist only of printable ASCII characters other than '='",
    )


@_remembered
def path_segment(text: str) -> tuple[str, ...]:
    """Check names of RBAC objects: anything that can be part of a URL."""
    if text in (".", ".."):
        return (f"may not be '{text}'",)
    return tuple(f"may not contain '{character}'" for character in "/%" if character in text)


@_remembered
def fully_qualified(text: str) -> tuple[str, ...]:
    if complaints := dns_subdomain(text):
        return (",".join(complaints),)
    if text.count(".") < 2:
        return ("should be a domain with at least three segments separated by dots",)
    return ()
