"""kubeconfig files: read, merged and one context chosen, by kubectl's rules.

Several files make one: of two entries with the same name the first file's counts, and so does the
first `current-context`. Paths inside a file are relative to that file.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from rescheduler.kube.access.cluster import BadClusterConfig
from rescheduler.model.bounded_yaml import load_yaml

__all__ = ["Chosen", "Entry", "KubeConfig"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A named cluster, user or context, and the file it stands in."""

    name: str
    content: Mapping[str, Any]
    file: Path

    def path(self, key: str) -> Path | None:
        """The file that `key` names."""
        value = self.content.get(key)
        return self.file.parent / Path(value).expanduser() if value else None


@dataclass(frozen=True, slots=True)
class Chosen:
    """A context, resolved."""

    context: Entry
    cluster: Entry
    user: Entry

    @property
    def namespace(self) -> str:
        return self.context.content.get("namespace") or "default"

    @property
    def source(self) -> str:
        return f"context {self.context.name} of {self.context.file}"


@dataclass(slots=True)
class KubeConfig:
    files: list[Path] = field(default_factory=list)
    current: str = ""
    contexts: dict[str, Entry] = field(default_factory=dict)
    clusters: dict[str, Entry] = field(default_factory=dict)
    users: dict[str, Entry] = field(default_factory=dict)

    @classmethod
    def read(cls, files: Iterable[Path]) -> "KubeConfig":
        """All of `files` must be there; see `cluster_config` for which ones those are."""
        merged = cls()
        for file in files:
            merged._add(file)
        return merged

    def choose(self, context: str | None = None) -> Chosen:
        name = context or self.current
        where = ", ".join(map(str, self.files))
        if not name:
            raise BadClusterConfig(where, "no current-context is set", self._offer())
        if name not in self.contexts:
            raise BadClusterConfig(where, f'there is no context "{name}"', self._offer())
        found = self.contexts[name]
        cluster = self.clusters.get(str(found.content.get("cluster")))
        if cluster is None:
            raise BadClusterConfig(
                str(found.file),
                f'context "{name}" names the cluster "{found.content.get("cluster")}"',
                "Add it.",
            )
        user = found.content.get("user")
        if user and user not in self.users:
            raise BadClusterConfig(str(found.file), f'context "{name}" names the user "{user}"', "Add it.")
        return Chosen(found, cluster, self.users[user] if user else Entry("", {}, found.file))

    def _offer(self) -> str:
        return f"Known contexts: {', '.join(sorted(self.contexts)) or 'none'}."

    def _add(self, file: Path) -> None:
        content = _parse(file)
        self.files.append(file)
        self.current = self.current or content.get("current-context") or ""
        for plural, section in (
            ("contexts", self.contexts),
            ("clusters", self.clusters),
            ("users", self.users),
        ):
            for position, item in enumerate(content.get(plural) or ()):
                entry = _entry(file, plural, position, item)
                section.setdefault(entry.name, entry)


def _parse(file: Path) -> dict[str, Any]:
    try:
        content = load_yaml(file.read_text())
    except OSError as error:
        raise BadClusterConfig(str(file), f"can't be read: {error.strerror}", "Check the path.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        why = " ".join(str(error).replace('in "<unicode string>",', "at").split()).rstrip(" ^")
        raise BadClusterConfig(str(file), f"is not YAML: {why}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise BadClusterConfig(str(file), "is no kubeconfig: it should be a mapping")
    return content


def _entry(file: Path, plural: str, position: int, item: Any) -> Entry:
    inner = plural.removesuffix("s")
    if not isinstance(item, dict) or not item.get("name") or not isinstance(item.get(inner) or {}, dict):
        raise BadClusterConfig(
            str(file), f'{plural}[{position}] should have a "name" and a mapping "{inner}"'
        )
    return Entry(str(item["name"]), item.get(inner) or {}, file)
