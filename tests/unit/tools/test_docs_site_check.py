"""The check of the built site finds what a reader without a network would miss."""

import pytest

from tools.docs_site_check import faults_of


@pytest.fixture
def site(tmp_path):
    (tmp_path / "searchindex.js").touch()
    (tmp_path / "other.html").write_text('<h1 id="top">Other</h1>')
    return tmp_path


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="gone.html">x</a>', "index.html: the link gone.html has no target"),
        ('<a href="other.html#gone">x</a>', "index.html: the link other.html#gone has no such anchor"),
        (
            '<script src="https://a.example/x.js"></script>',
            "index.html: loads https://a.example/x.js from the network",
        ),
        (
            '<link href="//a.example/x.css">',
            "index.html: loads //a.example/x.css from the network",
        ),
        ('<img src="gone.png">', "index.html: gone.png does not exist"),
    ],
)
def test_a_fault_is_found(site, body, fault):
    (site / "index.html").write_text(body)
    assert list(faults_of(site)) == [fault]


def test_a_good_site_has_none(site):
    (site / "index.html").write_text(
        '<a href="other.html#top">x</a> <a href="https://kubernetes.io">x</a> <a href="#here" id="here">x</a>'
    )
    assert list(faults_of(site)) == []


def test_a_style_that_loads_a_font_is_found(site):
    (site / "a.css").write_text("@font-face { src: url('https://a.example/f.woff2') }")
    assert len(list(faults_of(site))) == 1


def test_a_site_without_search_is_found(site):
    (site / "searchindex.js").unlink()
    assert list(faults_of(site)) == ["the search has no index"]
