"""Tables hold what a real API server (v1.37) printed for the same objects; see `captured/capture.py`."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kubesim.apiserver.kind_registry import KindRegistry, ResourceKind
from kubesim.printers import table

HERE = Path(__file__).parent / "captured"
GOLDEN = json.loads((HERE / "tables.json").read_text())
NOW = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)

GOLDEN_CUSTOM = ResourceKind(
    group="golden.example.com", version="v1", name="Golden", plural="goldens", singular="golden", custom=True
)


def kind_of(golden):
    found = KindRegistry().named(golden["apiVersion"], golden["kind"])
    return found or GOLDEN_CUSTOM


def columns_of(kind):
    if not kind.custom:
        return None
    definition = next(golden for golden in GOLDEN if golden["kind"] == "CustomResourceDefinition")
    return definition["rows"][0]["object"]["spec"]["versions"][0]["additionalPrinterColumns"]


def printed(golden, objects):
    kind = kind_of(golden)
    return table(kind, objects, datetime.fromisoformat(golden["now"]), columns_of(kind))


def test_the_captured_tables_cover_every_kind_that_has_columns_of_its_own():
    assert len(GOLDEN) >= 28
    assert all(golden["rows"] for golden in GOLDEN)


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: f"of {golden['kind']}")
def test_columns_are_those_of_the_real_server(golden):
    columns = printed(golden, [])["columnDefinitions"]

    assert [[c["name"], c["type"], c["format"], c["priority"]] for c in columns] == golden["columns"]
    assert all(column["description"] for column in columns)


def rows():
    for golden in GOLDEN:
        for position, row in enumerate(golden["rows"]):
            name = row["object"]["metadata"]["name"]
            yield pytest.param(golden, position, id=f"{golden['kind']} {name}")


@pytest.mark.parametrize(("golden", "position"), list(rows()))
def test_cells_are_those_of_the_real_server(golden, position):
    expected = golden["rows"][position]

    row = printed(golden, [row["object"] for row in golden["rows"]])["rows"][position]

    assert row["cells"] == expected["cells"]
    assert row.get("conditions") == expected.get("conditions")


CONFIG_MAPS = KindRegistry().find("", "v1", "configmaps")
MAP = {
    "metadata": {"name": "settings", "resourceVersion": "7", "creationTimestamp": "2026-11-15T11:59:00Z"},
    "data": {},
}


def test_a_row_carries_the_metadata_of_its_object_unless_asked_otherwise():
    shown = table(CONFIG_MAPS, [MAP], NOW)["rows"][0]["object"]

    assert shown == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": MAP["metadata"],
    }


def test_a_row_carries_the_whole_object_for_clients_that_sort_by_any_field():
    assert table(CONFIG_MAPS, [MAP], NOW, include_object="Object")["rows"][0]["object"] == MAP


def test_a_row_carries_no_object_if_none_is_wanted():
    assert table(CONFIG_MAPS, [MAP], NOW, include_object="None")["rows"][0]["object"] is None


def test_the_table_of_one_object_says_its_version():
    assert table(CONFIG_MAPS, [MAP], NOW)["metadata"] == {"resourceVersion": "7"}


def test_the_table_of_a_list_has_the_metadata_of_the_list():
    metadata = {"resourceVersion": "9", "continue": "more", "remainingItemCount": 3}

    assert table(CONFIG_MAPS, [MAP], NOW, list_metadata=metadata)["metadata"] == metadata


def test_a_custom_resource_without_printer_columns_shows_its_age():
    obj = {"metadata": {"name": "x", "creationTimestamp": "2026-11-15T11:00:00Z"}}

    shown = table(GOLDEN_CUSTOM, [obj], NOW)

    assert [column["name"] for column in shown["columnDefinitions"]] == ["Name", "Age"]
    assert shown["rows"][0]["cells"] == ["x", "60m"]


def test_kinds_without_columns_show_when_they_were_created():
    metrics = KindRegistry().find("metrics.k8s.io", "v1beta1", "nodes")
    obj = {"metadata": {"name": "n1", "creationTimestamp": "2026-11-15T11:00:00Z"}}

    assert table(metrics, [obj], NOW)["rows"][0]["cells"] == ["n1", "2026-11-15T11:00:00Z"]


STORAGE_CLASSES = KindRegistry().find("storage.k8s.io", "v1", "storageclasses")
JOBS = KindRegistry().find("batch", "v1", "jobs")


def default_class(name, created):
    marked = {"storageclass.kubernetes.io/is-default-class": "true"}
    return {"metadata": {"name": name, "annotations": marked, "creationTimestamp": created}}


@pytest.mark.parametrize(
    ("created", "default"),
    [
        pytest.param(("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"), "b (default)", id="the youngest"),
        pytest.param(("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"), "c (default)", id="whatever its name"),
        pytest.param(
            ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"), "b (default)", id="the first of equals"
        ),
    ],
)
def test_of_several_default_storage_classes_one_is_the_default(created, default):
    classes = [default_class("c", created[0]), default_class("b", created[1])]

    names = [row["cells"][0] for row in table(STORAGE_CLASSES, classes, NOW)["rows"]]

    assert [name for name in names if "default" in name] == [default]


@pytest.mark.parametrize(
    ("conditions", "word"),
    [
        pytest.param(["Complete", "SuccessCriteriaMet"], "Complete", id="its end if it has ended"),
        pytest.param(["Failed"], "Failed", id="also a bad end"),
        pytest.param(["Suspended"], "Terminating", id="that it is terminating if not"),
    ],
)
def test_a_job_that_is_being_deleted_shows(conditions, word):
    metadata = {"name": "once", "deletionTimestamp": "2026-11-15T11:00:00Z"}
    status = {"conditions": [{"type": condition, "status": "True"} for condition in conditions]}

    assert table(JOBS, [{"metadata": metadata, "status": status}], NOW)["rows"][0]["cells"][1] == word


@pytest.mark.parametrize(
    "kind", list(KindRegistry()), ids=lambda kind: f"a bare {kind.name} of {kind.group or 'the core group'}"
)
def test_an_object_without_spec_and_status_can_be_shown(kind):
    shown = table(kind, [{"metadata": {"name": "bare"}}], NOW)

    assert len(shown["rows"][0]["cells"]) == len(shown["columnDefinitions"])
    assert "bare" in shown["rows"][0]["cells"]
