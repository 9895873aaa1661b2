"""The source tree: names that occur once, and files at the size of an idea."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.move_trace import files_of_one_move

SOURCE = Path(__file__).parents[2] / "src"
MAX_PRODUCT_FILES = 275
MAX_LINES = 400
MAX_FILES_OF_ONE_MOVE = 90
REPEATED_BASENAMES = {"__init__", "__main__"}


def sources(*packages: str) -> Iterator[Path]:
    for package in packages:
        yield from (path for path in (SOURCE / package).rglob("*.py") if not path.stem.endswith("_pb2"))


def public_classes(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def repeated(names: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: places for name, places in sorted(names.items()) if len(places) > 1}


def test_no_module_basename_is_used_twice() -> None:
    places = defaultdict(list)
    for path in sources("rescheduler", "kubesim", "kubevalues"):
        if path.stem not in REPEATED_BASENAMES:
            places[path.stem].append(str(path.relative_to(SOURCE)))
    assert repeated(places) == {}


def test_no_public_class_name_is_used_twice() -> None:
    places = defaultdict(list)
    for path in sources("rescheduler", "kubesim", "kubevalues"):
        for name in public_classes(path):
            places[name].append(str(path.relative_to(SOURCE)))
    assert repeated(places) == {}


@pytest.mark.parametrize("package", ["rescheduler", "kubesim", "kubevalues"])
def test_no_file_is_too_long_to_read(package: str) -> None:
    lines = {str(path.relative_to(SOURCE)): len(path.read_text().splitlines()) for path in sources(package)}
    assert {path: count for path, count in lines.items() if count > MAX_LINES} == {}


def test_the_product_stays_small_enough_to_find_your_way() -> None:
    assert len(list(sources("rescheduler", "kubevalues"))) <= MAX_PRODUCT_FILES


def test_one_move_passes_through_few_files() -> None:
    """`python -m tools.move_trace` lists them; kubevalues are the value parsers that the simulator shares."""
    files = [file for file in files_of_one_move() if file.startswith("rescheduler/")]
    assert len(files) <= MAX_FILES_OF_ONE_MOVE, "\n".join(files)
