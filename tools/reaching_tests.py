"""Record which tests reach which lines of the product, and how much CPU time each test takes.

A line is identified by its function and text, so that code may move. Outdated records can only hide tests.
"""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coverage import CoverageData

    from tools.mutants import Mutant

__all__ = ["ReachingTests"]


@dataclass
class ReachingTests:
    """The measurements, as they are stored in a file."""

    seconds: dict[str, float] = field(default_factory=dict)
    failing: list[str] = field(default_factory=list)
    """Tests that fail without any mutant, and are left out."""
    lines: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """Tests by function, then by the text of a line."""

    def of(self, mutant: "Mutant", budget_s: float) -> list[str]:
        """Return the fastest tests that reach the changed lines, or else the function, within a budget."""
        lines = self.lines.get(_function_key(*mutant.key[:2]), {})
        texts = mutant.texts & lines.keys() or lines.keys()
        found = {test for text in texts for test in lines[text]} - set(self.failing)
        chosen, spent = list[str](), 0.0
        for test in sorted(found, key=lambda each: (self.seconds[each], each)):
            spent += self.seconds[test]
            if chosen and spent > budget_s:
                break
            chosen.append(test)
        return chosen

    def add(self, other: "ReachingTests") -> None:
        """Add what another process has measured."""
        self.seconds |= other.seconds
        self.failing += other.failing
        for function, lines in other.lines.items():
            own = self.lines.setdefault(function, {})
            for text, tests in lines.items():
                own[text] = [*own.get(text, []), *tests]

    def add_lines(self, data: "CoverageData", paths: Iterable[Path]) -> None:
        """Add the lines that coverage has seen, with tests as its contexts."""
        for path in paths:
            source = path.read_text(encoding="utf-8")
            functions, texts = _function_of_line(source), source.splitlines()
            for line, tests in data.contexts_by_lineno(str(path)).items():
                if function := functions.get(line):
                    own = self.lines.setdefault(_function_key(str(path), function), {})
                    text = texts[line - 1].strip()
                    own[text] = sorted({*own.get(text, []), *filter(None, tests)})


def _function_key(file: str, function: str) -> str:
    return f"{Path(file).name}:{function}"


def _function_of_line(source: str) -> Mapping[int, str]:
    """Return the outermost function of each line that is in the body of one."""
    found: dict[int, str] = {}
    parents: list[tuple[str, ast.AST]] = [("", ast.parse(source))]
    for prefix, parent in parents:
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.ClassDef):
                parents.append((f"{prefix}{node.name}.", node))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = range(node.body[0].lineno, (node.end_lineno or 0) + 1)
                found |= dict.fromkeys(body, prefix + node.name)
    return found
