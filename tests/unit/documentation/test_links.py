"""Every link between the documents, into the source tree and to an anchor has a target."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted(ROOT.glob("*/**/README.md")),
]
DOCUMENTS = [
    path
    for path in dict.fromkeys(DOCUMENTS)
    if not {"node_modules", "dist"} & set(path.parts) and ".venv" not in str(path)
]
LINK = re.compile(r"\]\(<?([^)\s>]+)>?\)|\bsrc=\"([^\"]+)\"")
CODE = re.compile(r"^( *)```.*?^\1```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def anchors_of(text: str) -> set[str]:
    """Return the anchors as repository hosts and the site derive them from headings."""
    anchors: set[str] = set()
    for heading in re.findall(
        r"^#{1,6} (.+?)\s*$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    ):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = 0
        while (unique := f"{slug}-{number}" if number else slug) in anchors:
            number += 1
        anchors.add(unique)
    return anchors


def links_of(path: Path) -> list[str]:
    text = CODE.sub("", path.read_text(encoding="utf-8"))
    return [link or source for link, source in LINK.findall(text) if not re.match(r"\w+:", link or source)]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_has_a_target(path):
    broken = []
    for link in links_of(path):
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        inside = target.is_relative_to(ROOT)
        if (
            not inside
            or not target.exists()
            or (
                anchor
                and target.suffix == ".md"
                and anchor not in anchors_of(target.read_text(encoding="utf-8"))
            )
        ):
            broken.append(link)
    assert broken == []


def test_the_pages_link_to_files_only():
    """The site copies what a page links to, and can't copy a folder."""
    pages = sorted((ROOT / "docs").rglob("*.md"))
    folders = [
        f"{page.name}: {link}"
        for page in pages
        for link in links_of(page)
        if (page.parent / link.partition("#")[0]).is_dir() and not link.startswith("#")
    ]
    assert folders == []


@pytest.mark.parametrize("index", ["docs/index.md", "docs/zh/index.md"])
def test_the_index_lists_every_page_of_its_folder(index):
    path = ROOT / index
    linked = {(path.parent / link).resolve() for link in links_of(path)}
    assert [
        page.name for page in sorted(path.parent.glob("*.md")) if page != path and page not in linked
    ] == []
