"""Mutants of Python functions: small changes that a test should notice.

mutmut makes most changes; those of conditions, results and calls are added here. Only bodies of functions
change, so that the changed code can replace that of a function that is already imported.
"""

import difflib
import gc
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators

__all__ = ["CodeKey", "MutableModule", "Mutant", "imported_functions"]

_Definition = cst.FunctionDef | cst.ClassDef
CodeKey = tuple[str, str, int]
"""A code object: its file, qualified name and first line."""

_LEFT_ALONE: Final = ("len", "isinstance", "cast")
"""Functions whose calls fail with any other arguments, or ignore them."""


@dataclass(frozen=True)
class Mutant:
    """One change of one function."""

    name: str
    """The module, the function and the number of the change in the function."""
    key: CodeKey
    texts: frozenset[str]
    """The source lines that it changes, without indentation."""
    original: cst.CSTNode
    changed: cst.CSTNode


class MutableModule:
    """A module with all its mutants, in the order of the source."""

    def __init__(self, path: Path, name: str) -> None:
        self._path, self._source = path, path.read_text(encoding="utf-8")
        wrapper = MetadataWrapper(cst.parse_module(self._source))
        visitor = _MutantVisitor(str(path), name, self._source.splitlines())
        wrapper.visit(visitor)
        self._tree = wrapper.module
        self.mutants: Sequence[Mutant] = visitor.mutants

    def code_of(self, mutant: Mutant) -> CodeType | None:
        """Return the changed code of the function, or None if it is not valid or no change."""
        original, changed = _code(self._source, mutant.key), _code(self._changed(mutant), mutant.key)
        usable = original and changed and changed != original and changed.co_freevars == original.co_freevars
        return changed if usable else None

    def difference(self, mutant: Mutant) -> str:
        """Return the change as the lines of a diff."""
        before, after = self._source.splitlines(), self._changed(mutant).splitlines()
        return "\n".join(list(difflib.unified_diff(before, after, n=1, lineterm=""))[2:])

    def _changed(self, mutant: Mutant) -> str:
        changed = self._tree.deep_replace(mutant.original, mutant.changed)
        assert isinstance(changed, cst.Module)
        return changed.code


def imported_functions() -> Mapping[CodeKey, Sequence[FunctionType]]:
    """Return all functions of the process, by their code."""
    found: dict[CodeKey, list[FunctionType]] = defaultdict(list)
    for each in gc.get_objects():
        if isinstance(each, FunctionType):
            found[_key(each.__code__)].append(each)
    return found


def _key(code: CodeType) -> CodeKey:
    return (code.co_filename, code.co_qualname, code.co_firstlineno)


def _code(source: str, key: CodeKey) -> CodeType | None:
    try:
        found = [compile(source, key[0], "exec")]
    except SyntaxError:
        return None
    for code in found:
        if _key(code) == key:
            return code
        found += [each for each in code.co_consts if isinstance(each, CodeType)]
    return None


class _MutantVisitor(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, file: str, module: str, lines: list[str]) -> None:
        super().__init__()
        self.mutants: list[Mutant] = []
        self._file, self._module, self._lines = file, module, lines
        self._definitions: list[_Definition] = []
        self._counts: dict[str, int] = defaultdict(int)
        self._span = (0, 0)

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Annotation | cst.Decorator | cst.Parameters) or _is_left_alone(node):
            return False
        if isinstance(node, _Definition):
            self._definitions.append(node)
        elif any(isinstance(each, cst.FunctionDef) for each in self._definitions):
            if position := self.get_metadata(PositionProvider, node, None):
                self._span = (position.start.line, position.end.line)
            for original, changed in _changes(node):
                self._add(original, changed)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if self._definitions and original_node is self._definitions[-1]:
            self._definitions.pop()

    def _add(self, original: cst.CSTNode, changed: cst.CSTNode) -> None:
        outermost = next(i for i, each in enumerate(self._definitions) if isinstance(each, cst.FunctionDef))
        definition = self._definitions[outermost]
        function = ".".join(each.name.value for each in self._definitions[: outermost + 1])
        first_line = self.get_metadata(PositionProvider, (*definition.decorators, definition)[0]).start.line
        position = self.get_metadata(PositionProvider, original, None)
        start, end = (position.start.line, position.end.line) if position else self._span
        texts = frozenset(each.strip() for each in self._lines[start - 1 : end])
        self._counts[function] += 1
        name = f"{self._module}:{function}:{self._counts[function]}"
        self.mutants.append(Mutant(name, (self._file, function, first_line), texts, original, changed))


def _is_left_alone(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value in _LEFT_ALONE


def _changes(node: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    for kind, operator in mutation_operators:
        if isinstance(node, kind):
            yield from ((node, changed) for changed in operator(node))
    # What mutmut lacks: negated conditions, lost results, calls that are not made.
    if isinstance(node, cst.If | cst.While | cst.CompIf):
        condition = node.test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        yield node.test, cst.UnaryOperation(cst.Not(), condition)
    elif isinstance(node, cst.Return) and node.value and not _is_constant(node.value):
        yield node.value, cst.Name("None")
    elif isinstance(node, cst.Expr) and isinstance(node.value, cst.Call | cst.Await):
        yield node, cst.Pass()


def _is_constant(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Name) and node.value in ("None", "True", "False")
