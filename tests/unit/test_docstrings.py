"""Docstrings are complete sentences, and what they name exists."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
Function = ast.FunctionDef | ast.AsyncFunctionDef
NEEDS_THE_NAME = re.compile(
    r"(After|As|At|By|Each|From|How|Its|Likewise|Of|Ours|That|Until|What|When|Where|Whether|Which|While|Who)\b"
    r"|Whose\b|Why\b"
)
"""The start of a function's docstring that is no sentence without the function's name."""
NEEDS_THE_ATTRIBUTE = re.compile(r"(As|By|From|Likewise|Of|Ours|That|Those|Until|Where|Whose)\b")
"""The same for attributes, which may have a noun phrase ("Seconds between two checks.")."""
EXCEPTIONS = re.compile(r"\b[Rr]aises? ((?:no |or |and |,? ?`\w+`,? ?)+)")


class Docstring(NamedTuple):
    place: str
    node: ast.AST
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text.splitlines()[0]}"


@cache
def sources() -> dict[Path, str]:
    files = (path for folder in ("src", "tools") for path in sorted((ROOT / folder).rglob("*.py")))
    return {path: path.read_text() for path in files if not path.stem.endswith("_pb2")}


@cache
def docstrings() -> list[Docstring]:
    return [each for path, text in sources().items() for each in docstrings_of(path, ast.parse(text))]


def docstrings_of(path: Path, node: ast.Module | ast.ClassDef | Function) -> Iterator[Docstring]:
    if text := ast.get_docstring(node):
        yield Docstring(f"{path.relative_to(ROOT)}:{node.body[0].lineno}", node, text)
    for field, below in pairwise([*node.body, None]):
        if isinstance(field, ast.ClassDef | Function):
            yield from docstrings_of(path, field)
        elif isinstance(field, ast.Assign | ast.AnnAssign) and isinstance(below, ast.Expr):
            value = below.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield Docstring(f"{path.relative_to(ROOT)}:{below.lineno}", field, value.value)


def is_command(node: ast.AST) -> bool:
    """Return whether `--help` prints the text, below the command's own summary."""
    return isinstance(node, Function) and any("command" in ast.unparse(each) for each in node.decorator_list)


def is_generator(node: Function) -> bool:
    own = [each for each in node.body if not isinstance(each, Function | ast.ClassDef)]
    return any(isinstance(part, ast.Yield | ast.YieldFrom) for each in own for part in ast.walk(each))


def test_docstrings_of_functions_are_sentences() -> None:
    assert [
        str(each)
        for each in docstrings()
        if isinstance(each.node, Function) and NEEDS_THE_NAME.match(each.text) and not is_command(each.node)
    ] == []


def test_docstrings_of_attributes_need_no_name_to_be_understood() -> None:
    assert [
        str(each)
        for each in docstrings()
        if isinstance(each.node, ast.Assign | ast.AnnAssign) and NEEDS_THE_ATTRIBUTE.match(each.text)
    ] == []


def test_what_returns_nothing_does_not_promise_a_result() -> None:
    """A generator yields, a context manager runs its body, and a function without a result does something."""
    functions = [each for each in docstrings() if isinstance(each.node, Function)]
    wrong = [
        str(each)
        for each in functions
        if each.text.startswith("Return ")
        and isinstance(each.node, Function)
        and (is_generator(each.node) or (each.node.returns and ast.unparse(each.node.returns) == "None"))
    ]
    assert wrong == []


def test_exceptions_that_docstrings_name_exist() -> None:
    named = {
        (each.place, name)
        for each in docstrings()
        for names in EXCEPTIONS.findall(each.text)
        for name in re.findall(r"`(\w+)`", names)
    }
    in_code = {word for text in sources().values() for word in re.findall(r"(?<![`\w])_?[A-Z]\w+", text)}
    assert named
    assert sorted((place, name) for place, name in named if name not in in_code) == []
