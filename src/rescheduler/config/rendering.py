"""A configuration as a file again: every setting, in a form that loads.

`effective` marks what is a default; `commented_defaults` explains every setting.
"""

import json
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from rescheduler.config.policy import ClientConnection, Configuration, LeaderElection, Policy
from rescheduler.config.scheduler_file import API_VERSION, KIND, PLUGIN
from rescheduler.config.shape import Setting, settings

__all__ = ["commented_defaults", "effective", "inline"]

_WIDTH = 100

Annotate = Callable[[Setting, Any], tuple[list[str], str]]
"""Of a setting and its value: comments above it, and a comment behind it."""


def effective(configuration: Configuration) -> str:
    """Every setting with its value; defaults are marked."""

    def annotate(setting: Setting, value: Any) -> tuple[list[str], str]:
        return [], "  # default" if value == setting.default and not setting.required else ""

    return _file(configuration, annotate)


def commented_defaults() -> str:
    """Every setting with its default, its meaning and what is allowed."""

    def annotate(setting: Setting, _value: Any) -> tuple[list[str], str]:
        return [setting.meaning] if setting.shape.block else [
            setting.meaning,
            f"Allowed: {setting.shape.allowed}.",
        ], ""

    return _file(Configuration(), annotate)


def _file(configuration: Configuration, annotate: Annotate) -> str:
    lines = [
        f"apiVersion: {API_VERSION}",
        f"kind: {KIND}",
        "clientConnection:",
        *_block(ClientConnection, configuration.client_connection, 2, annotate),
        "leaderElection:",
        *_block(LeaderElection, configuration.leader_election, 2, annotate),
        "profiles:",
        "  - pluginConfig:",
        f"      - name: {PLUGIN}",
        "        args:",
        *_block(Policy, configuration.policy, 10, annotate),
    ]
    return "\n".join(lines) + "\n"


def _block(block: type, values: Any, indent: int, annotate: Annotate) -> Iterator[str]:
    margin = " " * indent
    for setting in settings(block):
        value = getattr(values, setting.python_name)
        above, behind = annotate(setting, value)
        for comment in above:
            yield from textwrap.wrap(
                comment, _WIDTH, initial_indent=f"{margin}# ", subsequent_indent=f"{margin}# "
            )
        if setting.shape.block:
            yield f"{margin}{setting.name}:"
            yield from _block(setting.shape.block, value, indent + 2, annotate)
        else:
            yield f"{margin}{setting.name}: {inline(setting.shape.show(value))}{behind}"


_PLAIN = re.compile(r"[A-Za-z][-A-Za-z0-9_./]*|[0-9]+(?:h|m|s|ms)(?:[0-9]+(?:m|s|ms))*")
_RESERVED = re.compile(r"true|false|yes|no|on|off|null|y|n", re.IGNORECASE)


def inline(value: Any) -> str:
    """A value on one line, as YAML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{inline(key)}: {inline(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(inline, value)) + "]"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and not _RESERVED.fullmatch(value):
        return value
    # What is left looks alike in YAML and JSON, but for how characters beyond 16 bits are written.
    return "".join(c if c.isascii() else f"\\U{ord(c):08x}" for c in json.dumps(value, ensure_ascii=False))
