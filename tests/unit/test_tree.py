"""The source tree: unique names, and the size of files."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.move_trace import functions_of_one_move

SOURCE = Path(__file__).parents[2] / "src"
MAX_PRODUCT_MODULES = 260
ARCHITECTURE = SOURCE.parent / "docs" / "architecture.md"
GLOSSARY = SOURCE.parent / "docs" / "glossary.md"
MAX_LINES = 400
MAX_TEST_NAME = 80
MAX_FILES_OF_ONE_MOVE = 90
HOPS = r"^\| \d+ \| (.*?) \| (.*?) \|"
ONLY_IN_THE_DAEMON = {"PeriodicChecks._check", "DaemonListener"}
"""Hops that `rescheduler simulate` doesn't have."""
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


def test_the_readme_of_kubesim_says_how_large_each_folder_is() -> None:
    """Numbers that are off by more than 5 % say nothing. Update the table in src/kubesim/README.md."""
    lines: dict[str, int] = defaultdict(int)
    for path in sources("kubesim"):
        lines[str(path.parent.relative_to(SOURCE / "kubesim"))] += len(path.read_text().splitlines())
    table = re.findall(
        r"^\| `([\w./]+)` \|.*\| ([\d,]+) \|$", (SOURCE / "kubesim" / "README.md").read_text(), re.MULTILINE
    )
    written = {folder: int(count.replace(",", "")) for folder, count in table}
    assert written.keys() == lines.keys()
    assert {each: lines[each] for each in lines if abs(written[each] - lines[each]) > lines[each] / 20} == {}


def test_the_product_stays_small_enough_to_find_your_way() -> None:
    """Modules with content count: not `__init__` and `__main__`, and not what protoc generates (`_pb2`)."""
    modules = [path for path in sources("rescheduler", "kubevalues") if path.stem not in REPEATED_BASENAMES]
    assert len(modules) <= MAX_PRODUCT_MODULES


def test_names_of_tests_are_short() -> None:
    """A docstring tells the story."""
    names = [
        f"{path.name}: {name}"
        for path in (SOURCE.parent / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)", path.read_text())
        if len(name) > MAX_TEST_NAME
    ]
    assert names == []


def test_one_move_passes_through_few_files_and_the_hops_of_the_architecture_page() -> None:
    """`python -m tools.move_trace` lists the files: those of `rescheduler` and of `kubevalues`."""
    functions = functions_of_one_move()
    assert len(functions) <= MAX_FILES_OF_ONE_MOVE, "\n".join(functions)
    not_called: set[str] = set()
    for where, names in re.findall(HOPS, ARCHITECTURE.read_text(), re.MULTILINE):
        called = {
            function
            for file in re.findall(r"`([\w/]+\.py)`", where)
            for function in functions.get(f"rescheduler/{file}", ())
        }
        not_called |= {
            name
            for name in re.findall(r"`\.?([\w.]+)`", names)
            if not any(f".{name}." in f".{function}." for function in called)
        }
    assert not_called == ONLY_IN_THE_DAEMON


@pytest.mark.parametrize(
    ("page", "row"),
    [
        pytest.param(ARCHITECTURE, HOPS, id="the hops of one move"),
        pytest.param(GLOSSARY, r"^\| [^|]*\? \| (.*?) \| (.*?) \|", id="where is what"),
    ],
)
def test_tables_of_the_docs_name_files_and_functions_that_exist(page: Path, row: str) -> None:
    """Rename a file or function in these tables, too."""
    found = re.findall(row, page.read_text(), re.MULTILINE)
    assert found
    missing = []
    for where, functions in found:
        files = [SOURCE / "rescheduler" / name for name in re.findall(r"`([\w/]+\.py)`", where)]
        text = "".join(file.read_text() for file in files if file.exists())
        names = [name for each in re.findall(r"`([\w.]+)`", functions) for name in each.split(".") if name]
        missing += [str(file) for file in files if not file.exists()]
        missing += [name for name in names if not re.search(rf"((def|class) |^){name}\b", text, re.MULTILINE)]
    assert missing == []


def test_the_architecture_page_names_files_that_exist() -> None:
    named = re.findall(r"`((?:\w+/)+\w+\.py)`", ARCHITECTURE.read_text())
    places = [SOURCE / "rescheduler", SOURCE, SOURCE.parent]
    assert [name for name in named if not any((place / name).exists() for place in places)] == []
