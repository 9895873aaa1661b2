"""Objects as YAML for people: texts of several lines as they are."""

import yaml

__all__ = ["Readable", "as_yaml"]

_WIDTH = 10_000
"""No line is broken: neither a placeholder of the chart nor a long description reads better in pieces."""


class Readable(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - of all
        """Say what is said twice twice: readers of manifests should not have to look up anchors."""
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


Readable.add_representer(str, _text)


def as_yaml(*items: object) -> str:
    """One document each."""
    return yaml.dump_all(items, Dumper=Readable, sort_keys=False, allow_unicode=True, width=_WIDTH)
