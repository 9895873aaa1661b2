"""A large YAML file as JSON, so that all that follows has one way to go.

Plain values mean what they mean to kubectl: a date stays a text, a number as a key becomes a text. An
alias stands for a copy that nobody sees the size of, and `kubectl` never writes one: it is refused.
"""

from typing import Any

import msgspec
import yaml

from rescheduler.model.bounded_yaml import BoundedLoader

__all__ = ["NotPlain", "json_from_yaml"]

_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class NotPlain(ValueError):  # noqa: N818 - says what the content is
    """Valid YAML that no JSON could say."""


class _Loader(BoundedLoader):
    yaml_implicit_resolvers = {  # noqa: RUF012 - yaml's own, with one entry less
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in BoundedLoader.yaml_implicit_resolvers.items()
    }


def json_from_yaml(raw: bytes) -> bytes:
    """Raises `yaml.YAMLError` and `NotPlain`."""
    try:
        content = yaml.load(raw, Loader=_Loader)  # noqa: S506 - it is a safe loader
    except (ValueError, OverflowError, AttributeError) as error:
        # A number or a character that YAML's grammar lets pass and its constructors do not.
        raise NotPlain(str(error)) from error
    return msgspec.json.encode(_Plain().value(content, ""))


class _Plain:
    def __init__(self) -> None:
        self._seen: dict[int, Any] = {}
        """By id; the containers themselves are held, so that no id is given twice."""

    def value(self, value: Any, path: str) -> Any:
        if isinstance(value, dict | list):
            if value and id(value) in self._seen:
                raise NotPlain(f"{path or 'the file'} is an alias (*name): write it out")
            self._seen[id(value)] = value
        if isinstance(value, dict):
            return {_key(key, path): self.value(part, f"{path}.{key}") for key, part in value.items()}
        if isinstance(value, list):
            return [self.value(part, f"{path}[{place}]") for place, part in enumerate(value)]
        if value is None or isinstance(value, str | bool | int | float):
            return value
        raise NotPlain(f"{path.lstrip('.')} is a {type(value).__name__}, which JSON has not")


def _key(key: Any, path: str) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return str(key).lower()
    if isinstance(key, int | float):
        return str(key)
    raise NotPlain(f"{path.lstrip('.') or 'the file'} has a key that is neither a text nor a number")
