"""A YAML loader with limits, for files from untrusted sources.

Aliases (`[*a, *a]`) and merge keys (`<<: [*a, *a]`) grow exponentially with each level, numbers in base 60
or with a million digits take minutes to parse, and very deep nesting overflows the stack of libyaml and
ends the process. The loader raises an error as soon as a file exceeds what a real file needs.

`json_error_text` formats an error of a JSON parser: the path of the value, what was expected and found.
"""

import re
from typing import Any, Final

import yaml

__all__ = ["BoundedLoader", "json_error_text", "load_yaml"]

_MOST_REPEATED: Final = 100_000
"""The largest number of values to which the aliases of a file may expand."""
_LONGEST_NUMBER: Final = 100
_DEEPEST: Final = 250

_FASTEST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class BoundedLoader(_FASTEST):  # type: ignore[misc] # with or without libyaml: both have the same shape
    """A loader that raises `yaml.YAMLError` for content that is too large."""

    _depth = 0

    def descend_resolver(self, current_node: Any, current_index: Any) -> None:
        """Check the depth. The composer calls this before it reads the content of a node."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise yaml.composer.ComposerError(
                None, None, f"nested too deeply: more than {_DEEPEST} levels", None
            )
        super().descend_resolver(current_node, current_index)

    def ascend_resolver(self) -> None:
        self._depth -= 1
        super().ascend_resolver()

    def get_single_node(self) -> yaml.Node | None:
        """Compose the whole file and check how large it would become, before it is constructed."""
        root: yaml.Node | None = super().get_single_node()
        if root is not None:
            written: dict[int, int] = {}
            if _size(root, written) - len(written) > _MOST_REPEATED:
                raise _refusal(
                    f"aliases (*name) and merge keys (<<) expand to more than {_MOST_REPEATED} values", root
                )
        return root

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        _must_be_short(node)
        return int(super().construct_yaml_int(node))

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        _must_be_short(node)
        return float(super().construct_yaml_float(node))


BoundedLoader.add_constructor("tag:yaml.org,2002:int", BoundedLoader.construct_yaml_int)
BoundedLoader.add_constructor("tag:yaml.org,2002:float", BoundedLoader.construct_yaml_float)


_BEING_MEASURED: Final = -1


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """Return how many values the node is when every alias in it is written out; `known` holds all nodes."""
    found = known.get(id(node))
    if found == _BEING_MEASURED:
        raise _refusal("an alias (*name) that contains itself", node)
    if found is None:
        known[id(node)] = _BEING_MEASURED
        found = 1
        if isinstance(node, yaml.SequenceNode):
            found += sum(_size(each, known) for each in node.value)
        elif isinstance(node, yaml.MappingNode):
            found += sum(_size(key, known) + _size(value, known) for key, value in node.value)
        known[id(node)] = found
    return found


def _must_be_short(node: yaml.ScalarNode) -> None:
    if len(node.value) > _LONGEST_NUMBER:
        raise _refusal(f"a number with more than {_LONGEST_NUMBER} characters", node)


def _refusal(why: str, node: yaml.Node) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, why, node.start_mark)


def load_yaml(content: str | bytes) -> Any:
    """Return the data of the only document in `content`. Raises `yaml.YAMLError`, and RecursionError."""
    try:
        return yaml.load(content, Loader=BoundedLoader)  # noqa: S506 - it is a safe loader
    except (ValueError, OverflowError, AttributeError) as error:
        # A date or a character that YAML's grammar allows and its constructors reject.
        raise yaml.YAMLError(str(error)) from error


_PATH = re.compile(r" - at `(?:key in )?\$?(?P<path>[^`]*)`$")
_MISMATCH = re.compile(r"^Expected `(?P<wanted>[^`]+)`, got `(?P<found>[^`]+)`$")
_WORDS = {
    "object": "an object",
    "array": "a list",
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
    "datetime": "a timestamp",
}


def json_error_text(place: str, error: Exception) -> str:
    """Return the error as text, such as `items[3].metadata.name: expected a string, got an integer`."""
    why = str(error) or type(error).__name__
    if isinstance(error, RecursionError):
        why = "nested too deeply"
    path = ""
    if found := _PATH.search(why):
        path, why = found["path"], why[: found.start()]
    if mismatch := _MISMATCH.match(why):
        wanted = [kind for kind in mismatch["wanted"].split(" | ") if kind != "null"] or ["null"]
        why = f"expected {' or '.join(map(_word, wanted))}, got {_word(mismatch['found'])}"
    where = f"{place}{path}".lstrip(".")
    return f"{where}: {why}" if where else why


def _word(kind: str) -> str:
    return _WORDS.get(kind, kind)
