"""Run the commands that the documentation shows, and compare or write what they print.

    python -m tools.documented_outputs --check | --write

Commands that read a file of examples/ print the same on every machine, so their outputs are real in every
page and in every language. An output that ends with a line `…` is shown in part.
"""

import functools
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from click.testing import CliRunner

from rescheduler.cli import main as rescheduler

__all__ = ["DOCUMENTS", "is_repeatable", "main", "renewed"]

ROOT: Final = Path(__file__).parents[1]
DOCUMENTS: Final = (*sorted(ROOT.glob("README*.md")), *sorted((ROOT / "docs").rglob("*.md")))
_BLOCK: Final = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROMPT: Final = "$ "
_CUT: Final = "…"


def is_repeatable(command: str) -> bool:
    """Return whether the output is the same every day: it reads examples/, and no cluster or shell."""
    reads_examples = re.search(r"(--from|-f|check|from-descheduler) examples/", command)
    return command.startswith("rescheduler ") and bool(reads_examples) and not re.search(r"[|<>&;#]", command)


@functools.cache
def _output(command: str) -> list[str]:
    result = CliRunner().invoke(rescheduler, shlex.split(command)[1:])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise RuntimeError(f"`{command}` failed") from result.exception
    return str(result.output).splitlines()


def _renewed_block(lines: list[str]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        line = lines[at]
        end = next((n for n in range(at + 1, len(lines)) if lines[n].startswith(_PROMPT)), len(lines))
        shown = lines[at + 1 : end]
        command = line.removeprefix(_PROMPT)
        yield line
        if shown and line.startswith(_PROMPT) and is_repeatable(command):
            printed = _output(command)
            yield from [*printed[: len(shown) - 1], _CUT] if shown[-1] == _CUT else printed
        else:
            yield from shown
        at = end


def renewed(document: str) -> str:
    """Return the document with the real outputs of its repeatable commands."""
    return _BLOCK.sub(
        lambda found: "```console\n" + "\n".join(_renewed_block(found[1].splitlines())) + "\n```", document
    )


def main() -> int:
    writes = sys.argv[1:] == ["--write"]
    stale = 0
    for path in DOCUMENTS:
        present = path.read_text(encoding="utf-8")
        wanted = renewed(present)
        if present != wanted and writes:
            path.write_text(wanted, encoding="utf-8")
        elif present != wanted:
            sys.stderr.write(f"{path.relative_to(ROOT)} shows an old output: run `make generate`\n")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
