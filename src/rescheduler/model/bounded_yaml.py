"""YAML of which a few bytes can't become many: for every file that may come from somebody else.

Merge keys (`<<: [*a, *a]`) multiply with every level, numbers in base 60 or with a million digits take
minutes to read, and very deep nesting overflows the stack of libyaml, which ends the process. All of it is
refused as soon as it exceeds what a real file needs.
"""

from typing import Any, Final

import yaml

__all__ = ["BoundedLoader", "load_yaml"]

_MOST_MERGED_KEYS: Final = 10_000
_LONGEST_NUMBER: Final = 100
_DEEPEST: Final = 250

_FASTEST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class BoundedLoader(_FASTEST):  # type: ignore[misc] # with or without libyaml: both have the same shape
    """Raises `yaml.YAMLError` for what is too large."""

    _depth = 0

    def descend_resolver(self, current_node: Any, current_index: Any) -> None:
        """The composer calls this before it reads what is in a node: here depth is seen in time."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise yaml.composer.ComposerError(
                None, None, f"nested too deep: more than {_DEEPEST} levels", None
            )
        super().descend_resolver(current_node, current_index)

    def ascend_resolver(self) -> None:
        self._depth -= 1
        super().ascend_resolver()

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        if len(node.value) > _MOST_MERGED_KEYS and any(_is_merged(node, key) for key, _ in node.value):
            raise _refusal(f"merge keys (<<) make more than {_MOST_MERGED_KEYS} keys", node)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        _must_be_short(node)
        return int(super().construct_yaml_int(node))

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        _must_be_short(node)
        return float(super().construct_yaml_float(node))


BoundedLoader.add_constructor("tag:yaml.org,2002:int", BoundedLoader.construct_yaml_int)
BoundedLoader.add_constructor("tag:yaml.org,2002:float", BoundedLoader.construct_yaml_float)


def _is_merged(node: yaml.MappingNode, key: yaml.Node) -> bool:
    """Whether the key was written elsewhere in the file, and came here through a merge key."""
    return bool(not node.start_mark.index <= key.start_mark.index < node.end_mark.index)


def _must_be_short(node: yaml.ScalarNode) -> None:
    if len(node.value) > _LONGEST_NUMBER:
        raise _refusal(f"a number with more than {_LONGEST_NUMBER} characters", node)


def _refusal(why: str, node: yaml.Node) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, why, node.start_mark)


def load_yaml(content: str | bytes) -> Any:
    """Return what the one document in it says. Raises `yaml.YAMLError`, and RecursionError."""
    return yaml.load(content, Loader=BoundedLoader)  # noqa: S506 - it is a safe loader
