"""`plan --html`: one file that needs no server, and from which nothing but our own script runs."""

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

from rescheduler.api.well_known_names import MAINTENANCE_LABEL
from rescheduler.config.policy import Policy
from rescheduler.web.static_page import StaticFiles, plan_html
from tests.building import cluster
from tests.unit.cli.conftest import SAVED_AT, lopsided, run  # noqa: F401
from tests.unit.cluster.sources.rich_cluster import complete, saved
from tests.unit.web.conftest import saved_page

INDEX = """<!doctype html>
<html><head><script type="module" crossorigin src="./assets/index-1.js"></script>
<link rel="icon" href="./icon.svg" /><link rel="stylesheet" crossorigin href="./assets/style-1.css"></head>
<body><div id="app"></div></body></html>"""


@pytest.fixture
def built(tmp_path: Path) -> StaticFiles:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text(INDEX)
    (tmp_path / "assets" / "index-1.js").write_text('const end = "</script>";')
    (tmp_path / "assets" / "style-1.css").write_text("body { margin: 0 }")
    return StaticFiles(tmp_path)


def data_of(text):
    found = re.search(
        r'<script type="application/json" id="rescheduler-data">(.*?)</script>', text, re.DOTALL
    )
    return json.loads(found[1])


def test_the_file_has_all_that_the_page_asks_for(built):
    text = plan_html(saved_page(), built)
    data = data_of(text)
    assert {"/api/v1/session", "/api/v1/cluster", "/api/v1/plan", "/api/v1/status"} <= set(data)
    for move in data["/api/v1/plan"]["moves"]:
        assert f"/api/v1/nodes/{move['from']}" in data
        assert f"/api/v1/pods/{move['pod']}/explain" in data
    assert 'src="' not in text
    assert 'href="' not in text


def test_the_pods_of_the_file_are_those_that_move(built):
    """Also if the key of another pod contains the key of one that moves."""
    made = cluster().node("a", labels={MAINTENANCE_LABEL: "true"}).node("b").pod("ashop/web-1-0", on="b")
    page = saved_page(
        made.deployment("shop/web", on=["a"]).objects, Policy(enabled_strategies=("NodeMaintenance",))
    )
    data = data_of(plan_html(page, built))
    assert [move["pod"] for move in data["/api/v1/plan"]["moves"]] == ["shop/web-1-0"]
    assert [pod["pod"] for pod in data["/api/v1/pods"]["pods"]] == ["shop/web-1-0"]


def test_only_our_own_script_may_run(built):
    text = plan_html(saved_page(), built)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)[1].replace("&#x27;", "'")
    script = re.search(r'<script type="module">(.*?)</script>', text, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy
    assert "default-src 'none'" in policy


def test_no_name_can_end_the_data(built):
    made = cluster().node("worker-1", labels={"pool": "</script><script>alert(1)</script>"})
    made.pod("shop/web", on="worker-1")
    text = plan_html(saved_page(made.objects), built)
    assert "alert(1)</script>" not in text
    column = data_of(text)["/api/v1/cluster"]["nodes"]["pool"]
    assert column["values"] == ["</script><script>alert(1)</script>"]


def test_a_file_for_others_has_no_names(run, tmp_path):  # noqa: F811
    saved_shop = tmp_path / "shop.json"
    saved_shop.write_text(json.dumps(saved(complete(lopsided().objects), saved_at=SAVED_AT)))
    file = tmp_path / "plan.html"
    done = run("plan", "--from", saved_shop, "--html", file, "--anonymize")
    assert done.exit_code == 3, done.output
    text = file.read_text()
    assert data_of(text)["/api/v1/plan"]["moves"]
    assert not re.search(r"\bshop\b|\bworker-\d", text)
