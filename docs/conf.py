"""Build these pages as a site: `make docs`. See decision 34."""

import re
from pathlib import Path

from pygments.lexers.shell import BashSessionLexer

DOCS = Path(__file__).parent

project = "rescheduler"
author = "The rescheduler authors"
extensions = ["myst_parser"]
exclude_patterns = ["README.md"]
# The same anchors as on a repository host, so that a link works in both places.
myst_heading_anchors = 6
suppress_warnings = ["myst.header"]

html_theme = "furo"
html_title = "rescheduler"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}

_LINK = re.compile(r"\]\((?!\w+:|#)([^)\s]+)\)")
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)


def _with_table_of_contents(page: str, text: str) -> str:
    """Add the pages that an index links to the navigation, so that there is one list of pages."""
    if page == "decisions/README":
        return text + "\n```{toctree}\n:hidden:\n:glob:\n\n0*\n```\n"
    parts = _SECTION.split(text)
    for title, section in zip(parts[1::2], parts[2::2], strict=True):
        pages = [
            link for link in _LINK.findall(section) if link.endswith(".md") and not link.startswith("..")
        ]
        if pages:
            entries = "\n".join(pages)
            text += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{entries}\n```\n"
    return text


def _linked_files_are_copied(page: str, text: str) -> str:
    """Let the site contain files outside of docs/ that a page links to: it needs no network."""

    def with_path(match: re.Match[str]) -> str:
        target = (DOCS / page).parent / match[1].partition("#")[0]
        outside = not target.resolve().is_relative_to(DOCS)
        return f"](<path:{match[1].partition('#')[0]}>)" if outside else match[0]

    return _LINK.sub(with_path, text)


def _prepare(_app: object, page: str, content: list[str]) -> None:
    text = _linked_files_are_copied(page, content[0])
    if page in {"index", "zh/index", "decisions/README"}:
        text = _with_table_of_contents(page, text)
    content[0] = text


class _Console(BashSessionLexer):  # type: ignore[misc]
    """Commands begin with `$`. A line that begins with `#` or `%` is output, such as a comment in YAML."""

    _ps1rgx = re.compile(r"^(\$ )(.*\n?)")


def setup(app: object) -> None:
    app.connect("source-read", _prepare)  # type: ignore[attr-defined]
    app.add_lexer("console", _Console)  # type: ignore[attr-defined]
