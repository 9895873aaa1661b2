"""Check the built documentation site: links and anchors have targets, nothing is loaded from a network.

    python -m tools.docs_site_check FOLDER

The generator checks links between pages. This also checks what it made of links to files, images and
navigation, and what its theme loads.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote

__all__ = ["faults_of", "main"]

_ADDRESS: Final = re.compile(r"^(?:[a-z]+:)?//", re.IGNORECASE)
_LOADED_BY_CSS: Final = re.compile(r"(?:url\(\s*|@import\s+)[\"']?(?:https?:)?//[^\"')\s]+")


class _Page(HTMLParser):
    """The anchors of one page, and the addresses that it links to and loads."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag == "link" and values.get("rel") not in {"canonical", "author", "next", "prev"}:
            self.loaded.append(values.get("href", ""))
        elif "src" in values:
            self.loaded.append(values["src"])


def _parsed(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def faults_of(site: Path) -> Iterator[str]:
    """Yield one line for each fault of the site in a folder."""
    pages = {path.resolve(): _parsed(path) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        for fault in (*_loading_faults(path, page), *_link_faults(path, pages)):
            yield f"{path.relative_to(site.resolve())}: {fault}"
    for path in sorted(site.rglob("*.css")):
        for loaded in _LOADED_BY_CSS.findall(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)}: loads {loaded} from the network"
    if not (site / "searchindex.js").exists():
        yield "the search has no index"


def _loading_faults(path: Path, page: _Page) -> Iterator[str]:
    for address in page.loaded:
        if _ADDRESS.match(address):
            yield f"loads {address} from the network"
        elif not address.startswith("data:") and not _file(path, address).exists():
            yield f"{address} does not exist"


def _link_faults(path: Path, pages: Mapping[Path, _Page]) -> Iterator[str]:
    for address in pages[path].links:
        if _ADDRESS.match(address) or address.startswith("mailto:"):
            continue
        target, anchor = _file(path, address), unquote(address.partition("#")[2])
        if not target.is_file():
            yield f"the link {address} has no target"
        elif anchor and target in pages and anchor not in pages[target].anchors:
            yield f"the link {address} has no such anchor"


def _file(page: Path, address: str) -> Path:
    name = unquote(re.split(r"[#?]", address, maxsplit=1)[0])
    return (page.parent / name).resolve() if name else page


def main() -> None:
    site = Path(sys.argv[1])
    found = list(faults_of(site))
    if found:
        sys.exit("\n".join(found))
    sys.stdout.write(
        f"{site}: {len(list(site.rglob('*.html')))} pages, no broken link, nothing loaded from a network\n"
    )


if __name__ == "__main__":
    main()
