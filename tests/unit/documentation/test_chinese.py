"""The Chinese documents have the structure, the commands, the outputs and the links of the English ones."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CHINESE = [ROOT / "README.zh-CN.md", *sorted((ROOT / "docs/zh").glob("*.md"))]
PAIRS = [path for path in CHINESE if path.name != "index.md"]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
REQUIRED = {"quick-start", "concepts", "descheduler"} | {
    page.stem for page in (ROOT / "docs").glob("from-*.md")
}


def english_of(path: Path) -> Path:
    return ROOT / "README.md" if path.parent == ROOT else ROOT / "docs" / path.name


def headings(text: str) -> list[str]:
    """Return the levels of the headings."""
    return re.findall(r"^(#{1,6}) ", BLOCK.sub("", text), re.MULTILINE)


def blocks(text: str) -> list[tuple[str, str]]:
    """Return the code blocks without the comments after commands, which are translated."""
    comment = re.compile(r"^(\$ .*?) +# .*$", re.MULTILINE)
    return [(language, comment.sub(r"\1", code)) for language, code in BLOCK.findall(text)]


def tables(text: str) -> list[int]:
    """Return the number of cells of each row."""
    rows = re.findall(r"^\|.*\|$", BLOCK.sub("", text), re.MULTILINE)
    return [len(re.sub(r"`[^`]*`", "", row).split("|")) for row in rows]


def lists(text: str) -> int:
    return len(re.findall(r"^(?:- |\d+\. )", BLOCK.sub("", text), re.MULTILINE))


def code_in_text(text: str) -> set[str]:
    """Return the names of settings, labels and commands."""
    return set(re.findall(r"`([^`\n]+)`", BLOCK.sub("", text)))


def links(path: Path) -> list[Path]:
    """Return the pages that a page links to; a translated one counts as its English page."""
    found = re.findall(r"\]\((?!\w+:|#)([^)#\s]+)", BLOCK.sub("", path.read_text(encoding="utf-8")))
    targets = [(path.parent / link).resolve() for link in found if "images/" not in link]
    targets = [english_of(target) if target in PAIRS else target for target in targets]
    return sorted(
        target for target in targets if target not in {ROOT / "README.md", ROOT / "README.zh-CN.md"}
    )


def test_what_newcomers_need_is_translated():
    assert {path.stem for path in PAIRS} >= REQUIRED | {"README.zh-CN"}


@pytest.mark.parametrize("path", PAIRS, ids=lambda path: path.name)
class TestEachPage:
    def test_the_headings_are_the_same(self, path):
        assert headings(path.read_text()) == headings(english_of(path).read_text())

    def test_the_commands_and_outputs_are_the_same(self, path):
        assert blocks(path.read_text()) == blocks(english_of(path).read_text())

    def test_tables_and_lists_have_the_same_size(self, path):
        text, english = path.read_text(), english_of(path).read_text()
        assert tables(text) == tables(english)
        assert lists(text) == lists(english)

    def test_the_same_settings_and_commands_are_named(self, path):
        assert code_in_text(path.read_text()) ^ code_in_text(english_of(path).read_text()) == set()

    def test_the_same_pages_are_linked(self, path):
        index = {ROOT / "docs/index.md", ROOT / "docs/zh/index.md"}
        found, wanted = links(path), links(english_of(path))
        assert [each for each in found if each not in index] == [each for each in wanted if each not in index]
