"""What the server derives from a CustomResourceDefinition."""

import copy
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from kubesim.custom_resources import served_definitions

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WIDGET = yaml.safe_load((Path(__file__).parent / "seen" / "widget.yaml").read_text("utf-8"))


@pytest.fixture
def definition():
    return copy.deepcopy(WIDGET)


def condition(definition, type_):
    return next(c for c in definition["status"]["conditions"] if c["type"] == type_)


def test_each_version_is_a_kind_of_its_own(definition):
    old = {
        **definition["spec"]["versions"][0],
        "name": "v1alpha1",
        "served": False,
        "subresources": {"status": {}},
    }
    definition["spec"]["versions"].append(old)
    new, old = served_definitions.kinds_of(definition)
    assert (new.api_version, new.served, new.subresources) == (
        "adm.example.com/v1",
        True,
        ("scale", "status"),
    )
    assert (old.api_version, old.served, old.subresources) == ("adm.example.com/v1alpha1", False, ("status",))
    assert new.custom
    assert new.short_names == ("wd",)


def test_a_definition_without_rivals_is_established(definition):
    done = served_definitions.established(definition, [definition], NOW)
    assert condition(done, "NamesAccepted")["status"] == "True"
    assert condition(done, "Established")["reason"] == "InitialNamesAccepted"
    assert done["status"]["acceptedNames"]["plural"] == "widgets"
    assert done["status"]["storedVersions"] == ["v1"]
    assert "status" not in definition


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ({"shortNames": ["widgets"]}, "PluralConflict"),
        ({"shortNames": ["wd"]}, "ShortNamesConflict"),
        ({"kind": "Widget"}, "KindConflict"),
    ],
)
def test_names_that_another_definition_has_are_not_accepted(names, reason, definition):
    rival = {
        "metadata": {"name": "others.adm.example.com"},
        "spec": {"group": "adm.example.com", "names": {"plural": "others", "kind": "Other", **names}},
    }
    done = served_definitions.established(definition, [rival], NOW)
    assert condition(done, "NamesAccepted")["reason"] == reason
    assert condition(done, "Established")["status"] == "False"
    rival["spec"]["group"] = "elsewhere.example.com"
    assert (
        condition(served_definitions.established(definition, [rival], NOW), "Established")["status"] == "True"
    )


def test_the_time_of_a_condition_stays_as_long_as_its_value_does(definition):
    once = served_definitions.established(definition, [], NOW)
    later = served_definitions.established(once, [], NOW + timedelta(hours=1))
    assert later == once


def test_versions_that_were_once_stored_are_remembered(definition):
    definition["status"] = {"storedVersions": ["v1alpha1"]}
    assert served_definitions.established(definition, [], NOW)["status"]["storedVersions"] == [
        "v1alpha1",
        "v1",
    ]


def test_scale_and_columns_are_read_from_the_definition(definition):
    columns = [{"name": "Mode", "type": "string", "jsonPath": ".spec.mode"}]
    definition["spec"]["versions"][0]["additionalPrinterColumns"] = columns
    (kind,) = served_definitions.kinds_of(definition)
    assert served_definitions.printer_columns(kind, lambda *_: definition) == columns
    assert served_definitions.scale_paths(kind, lambda *_: definition) == (
        ".spec.replicas",
        ".status.replicas",
        "",
    )


def test_nothing_is_known_of_a_kind_whose_definition_is_gone(definition):
    (kind,) = served_definitions.kinds_of(definition)
    assert served_definitions.schema_of(kind, lambda *_: None) is None
    assert served_definitions.scale_paths(kind, lambda *_: None) is None
    assert served_definitions.printer_columns(kind, lambda *_: None) == []
