"""Check that the built web page is up to date. Needs no Node: it compares the hash of the sources that the
build wrote.

    python -m tools.web_page_check

With Node, `make web` followed by `git diff --exit-code` compares the files themselves.
"""

import hashlib
import sys
from pathlib import Path

__all__ = ["main", "sources_hash"]

_WEB = Path(__file__).parents[1] / "web"
_BUILT = Path(__file__).parents[1] / "src/rescheduler/web/static/sources.sha256"
_INPUTS = (
    "index.html",
    "openapi.json",
    "package-lock.json",
    "package.json",
    "public",
    "scripts",
    "src",
    "tsconfig.json",
    "vite.config.ts",
)
"""The same files as in web/scripts/sources-hash.mjs. The types of the API are made from openapi.json, so
a page that was built before it changed is out of date."""


def sources_hash() -> str:
    """Return one hash of everything that the built page depends on."""
    found = sorted(
        path.relative_to(_WEB).as_posix()
        for name in _INPUTS
        for path in [_WEB / name, *(_WEB / name).rglob("*")]
        if path.is_file()
    )
    lines = (f"{hashlib.sha256((_WEB / path).read_bytes()).hexdigest()}  {path}\n" for path in found)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def main() -> None:
    built = _BUILT.read_text().strip() if _BUILT.exists() else ""
    if built != sources_hash():
        sys.exit("The built web page is out of date: run `make web`.")


if __name__ == "__main__":
    main()
