"""Our .proto files against those of Kubernetes: the same names, numbers and types."""

import re
import subprocess
from pathlib import Path

import pytest

from bench.protobuf_writer import Field, Schema, schema_from
from tests.unit.kube.codecs.manifests import ROOT, WIRE

NOT_UPSTREAM = {"StringEntry", "SharedAnnotation"}
"""Entries of maps: on the wire those are messages, in the files they have no name."""
_VIEW = re.compile(r"^// view of (\w+)[^\n]*\n(?:// [^\n]*\n)*message (\w+) ", re.MULTILINE)


def upstream_files() -> list[Path]:
    try:
        cache = subprocess.run(
            ["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=True, timeout=30
        )
    except (FileNotFoundError, subprocess.SubprocessError):
        return []
    modules = Path(cache.stdout.strip()) / "k8s.io"
    newest = max(modules.glob("api@v*"), default=None, key=lambda path: _version(path.name))
    if newest is None:
        return []
    machinery = modules / newest.name.replace("api@", "apimachinery@")
    files = [
        newest / "core/v1/generated.proto",
        newest / "apps/v1/generated.proto",
        machinery / "pkg/apis/meta/v1/generated.proto",
        machinery / "pkg/runtime/generated.proto",
        machinery / "pkg/api/resource/generated.proto",
    ]
    return files if all(file.exists() for file in files) else []


def _version(name: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", name)]


@pytest.fixture(scope="module")
def upstream() -> Schema:
    files = upstream_files()
    if not files:
        pytest.skip("no Kubernetes sources in the Go module cache to compare the schema with")
    schema = Schema()
    # meta/v1 and runtime both have a TypeMeta, in another order; the envelope has runtime's.
    for file in files:
        for message, fields in schema_from(file).items():
            schema.setdefault(message, {}).update(fields)
    return schema


@pytest.fixture(scope="module")
def views() -> dict[str, str]:
    text = "\n".join((WIRE / name).read_text() for name in ("api.proto", "views.proto"))
    return {view: message for message, view in _VIEW.findall(text)}


def bare(kind: str) -> str:
    """`.k8s.io.apimachinery.pkg.apis.meta.v1.Time` and `Time` are the same."""
    return re.sub(r"\.?[\w.]+\.(\w+)", r"\1", kind)


def differences(ours: dict[str, Field], theirs: dict[str, Field], views: dict[str, str]) -> list[str]:
    found = []
    for name, field in ours.items():
        if name not in theirs:
            found.append(f"{name} does not exist")
        elif field.number != theirs[name].number:
            found.append(f"{name} is number {theirs[name].number}, not {field.number}")
        elif views.get(field.type, bare(field.type)) != bare(theirs[name].type):
            found.append(f"{name} is a {theirs[name].type}, not a {field.type}")
        elif field.repeated != theirs[name].repeated and not field.type.startswith("map<"):
            found.append(f"{name} is {'' if theirs[name].repeated else 'not '}repeated")
    return found


@pytest.mark.parametrize(
    "file",
    [*sorted(WIRE.glob("*.proto")), ROOT / "bench" / "unread.proto"],
    ids=lambda file: file.name,
)
def test_every_field_has_the_name_the_number_and_the_type_it_has_upstream(
    file: Path, upstream: Schema, views: dict[str, str]
):
    ours = schema_from(file)
    assert ours
    wrong = {}
    for message, fields in ours.items():
        if message not in NOT_UPSTREAM:
            found = differences(fields, upstream[views.get(message, message)], views)
            if found:
                wrong[message] = found
    assert wrong == {}


def test_every_view_says_what_it_is_a_view_of(views: dict[str, str]):
    assert set(schema_from(WIRE / "views.proto")) - NOT_UPSTREAM == set(views) - {"TemplatePodSpec"}


def test_own_and_shared_views_together_see_all_that_the_full_schema_names(views: dict[str, str]):
    """Otherwise a field would be read from a single pod and lost for its siblings."""
    full = schema_from(WIRE / "api.proto")
    seen: dict[str, set[str]] = {}
    for view, fields in schema_from(WIRE / "views.proto").items():
        if view in views:
            seen.setdefault(views[view], set()).update(fields)
    missing = {message: set(full[message]) - fields for message, fields in seen.items()}
    assert {message: names for message, names in missing.items() if names} == {
        "ObjectMeta": {"generation"},  # read of ReplicaSets
        "PodList": {"metadata"},  # read by the frames
        "Volume": {"name"},  # read by the full look at pods with ephemeral volumes
    }


def test_a_wrong_number_would_be_found():
    field = Field(7, "string", False)
    assert differences({"a": field}, {"a": field._replace(number=8)}, {}) == ["a is number 8, not 7"]
    assert differences({"a": field}, {"a": field._replace(type="int32")}, {}) == [
        "a is a int32, not a string"
    ]
    assert differences({"a": field}, {}, {}) == ["a does not exist"]
