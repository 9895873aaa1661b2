"""`make check` fails as soon as the built web page is not that of the sources."""

import shutil
from pathlib import Path

import pytest

from tools import web_page_check

WEB = Path(web_page_check.__file__).parents[1] / "web"


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A copy of the sources, with the hash of the committed build."""
    copy = tmp_path / "web"
    shutil.copytree(WEB, copy, ignore=shutil.ignore_patterns("node_modules", "tests"))
    monkeypatch.setattr(web_page_check, "_WEB", copy)
    return copy


def test_the_committed_page_is_up_to_date(sources):
    web_page_check.main()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda web: (web / "src/app.tsx").write_text("// another page"), id="a changed source"),
        pytest.param(lambda web: (web / "src/views/new.tsx").write_text(""), id="a new file"),
        pytest.param(lambda web: (web / "src/views/why.tsx").unlink(), id="a file less"),
        pytest.param(
            lambda web: (web / "src/views/why.tsx").rename(web / "src/views/because.tsx"), id="a renamed file"
        ),
        pytest.param(
            lambda web: (web / "openapi.json").write_text("{}"), id="another description of the API"
        ),
        pytest.param(lambda web: (web / "package-lock.json").write_text("{}"), id="other dependencies"),
    ],
)
def test_another_source_is_noticed(sources, change):
    change(sources)
    with pytest.raises(SystemExit, match="out of date: run `make web`"):
        web_page_check.main()


def test_a_page_that_was_never_built_is_noticed(sources, tmp_path, monkeypatch):
    monkeypatch.setattr(web_page_check, "_BUILT", tmp_path / "none")
    with pytest.raises(SystemExit, match="out of date"):
        web_page_check.main()
