"""Invalid files: every command reports what is wrong in one sentence, and exits."""

import copy
import gzip
import json

import pytest

DATA_ERROR, USAGE_ERROR = 1, 2
COMMANDS = {
    "plan": lambda file, folder: ("plan", "--from", file),
    "explain": lambda file, folder: ("explain", "node", "worker-0", "--from", file),
    "snapshot": lambda file, folder: ("snapshot", folder / "out.json", "--from", file),
    "snapshot --anonymize": lambda file, folder: (
        "snapshot",
        folder / "out.json",
        "--anonymize",
        "--from",
        file,
    ),
}
GZIP_BOMB = gzip.compress(b" " * (65 << 20))
MERGE_KEY_BOMB = "a0: &a0 {x: 1, y: 2}\n" + "".join(
    f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * 9)}]}}\n" for level in range(1, 12)
)
MERGED_OFTEN = (
    f"x: &x {{{', '.join(f'k{number}: 1' for number in range(9_000))}}}\n"
    + "".join(f"y{number}: {{<<: *x}}\n" for number in range(2_000))
).encode()
"""No mapping is large, but there are many: 150 KB become gigabytes."""
MERGED_AT_ONCE = (
    f"x: &x {{{', '.join(f'k{number}: 1' for number in range(9_000))}}}\n"
    f"y: {{<<: [{','.join(['*x'] * 30_000)}]}}\n"
).encode()
every_command = pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)


def refused(run, command, file, folder) -> str:
    result = run(*command(file, folder))
    assert result.exit_code == DATA_ERROR, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert not (folder / "out.json").exists()
    return result.stderr


@every_command
@pytest.mark.parametrize(
    ("damage", "reported"),
    [
        pytest.param(lambda raw: gzip.compress(raw)[:-9], "gzip", id="gzip that was cut"),
        pytest.param(lambda raw: gzip.compress(raw)[:40], "gzip", id="gzip of which little came"),
        pytest.param(lambda raw: b"\x1f\x8b" + raw, "gzip", id="what only begins like gzip"),
        pytest.param(
            lambda raw: gzip.compress(raw)[:60] + b"x" * 60, "gzip", id="gzip with other bytes in it"
        ),
        pytest.param(lambda raw: gzip.compress(raw[: len(raw) // 2]), "", id="gzip of half a file"),
        pytest.param(lambda raw: raw[: len(raw) // 2], "", id="half a file"),
        pytest.param(lambda raw: b"", "", id="nothing"),
        pytest.param(lambda raw: b"\x00" * 100, "", id="only zeros"),
        pytest.param(lambda raw: b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "", id="a picture"),
        pytest.param(lambda raw: b"[" * 100_000, "", id="nested without end"),
        pytest.param(lambda raw: b'{"kind": "List", "items": {}}', "items", id="a list that is none"),
        pytest.param(lambda raw: GZIP_BOMB, "unpack to more than", id="gzip that unpacks to gigabytes"),
        pytest.param(lambda raw: MERGE_KEY_BOMB.encode(), "merge keys", id="merge keys that multiply"),
        pytest.param(lambda raw: MERGED_OFTEN, "merge keys", id="merge keys that add up"),
        pytest.param(lambda raw: MERGED_AT_ONCE, "merge keys", id="a list of merge keys"),
        pytest.param(
            lambda raw: b"a: &a {<<: *a, b: 1}", "contains itself", id="a mapping that merges itself"
        ),
        pytest.param(lambda raw: b"- " * 50_000, "nested too deeply", id="YAML nested without end"),
        pytest.param(lambda raw: b"a: 1" + b":1" * 300_000, "a number", id="an endless number in base 60"),
    ],
)
def test_a_damaged_file_is_refused_in_words(run, shop, tmp_path, command, damage, reported):
    file = tmp_path / "damaged"
    file.write_bytes(damage(shop.read_bytes()))
    complaint = refused(run, command, file, tmp_path)
    assert complaint.startswith(f"{file}: "), complaint
    assert reported in complaint


@every_command
def test_an_impossible_name_is_refused_in_words(run, tmp_path, command):
    assert refused(run, command, "a\x00b", tmp_path) == "a\\u0000b: embedded null byte\n"


@pytest.mark.parametrize("option", ["snapshot", "--save"])
def test_so_is_one_to_write_to(run, shop, option):
    given = ("snapshot", "a\x00b") if option == "snapshot" else ("plan", "--save", "a\x00b")
    result = run(*given, "--from", shop)
    assert result.exit_code == DATA_ERROR, result.output
    assert "a\\u0000b: embedded null" in result.stderr


@every_command
def test_a_folder_is_no_file(run, tmp_path, command):
    assert refused(run, command, tmp_path, tmp_path) == f"{tmp_path}: Is a directory\n"


# --- times


@pytest.mark.parametrize(
    "moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "noon", "2026-02-30T12:00:00Z"]
)
def test_what_the_time_is_must_be_a_time_in_every_zone(run, shop, tmp_path, moment):
    given = run("plan", "--from", shop, "--now", moment)
    assert given.exit_code == USAGE_ERROR
    assert f'"{moment}" is not a time such as' in given.stderr
    content = json.loads(shop.read_text())
    content["metadata"]["annotations"]["rescheduler.dev/saved-at"] = moment
    shop.write_text(json.dumps(content))
    assert f'"{moment}" is not an RFC 3339 timestamp' in refused(run, COMMANDS["plan"], shop, tmp_path)


def with_time(shop, moment: object, kind: str = "Pod", field: str = "creationTimestamp") -> None:
    content = copy.deepcopy(json.loads(shop.read_text()))
    first = next(each for each in content["items"] if each["kind"] == kind)
    first["metadata"][field] = moment
    shop.write_text(json.dumps(content))


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(None, id="null"),
        pytest.param("2026-03-01T12:00:00Z", id="as the API server writes it"),
        pytest.param("2026-03-01T12:00:00.123456Z", id="with a part of a second"),
        pytest.param("2026-03-01T13:00:00+01:00", id="of another zone"),
        pytest.param("0001-01-01T00:00:00Z", id="the beginning of time"),
        pytest.param("1969-12-31T23:59:59Z", id="before 1970"),
        pytest.param("9999-12-31T23:59:59Z", id="the end of time"),
    ],
)
def test_an_odd_time_is_a_time(run, shop, tmp_path, moment):
    for kind in ("Pod", "Node", "Deployment"):
        with_time(shop, moment, kind)
    for command in ("plan", "snapshot --anonymize"):
        result = run(*COMMANDS[command](shop, tmp_path))
        assert result.exit_code in {0, 3}, result.output


@pytest.mark.parametrize(
    "command", [COMMANDS["plan"], COMMANDS["snapshot --anonymize"]], ids=["plan", "snapshot"]
)
@pytest.mark.parametrize("kind", ["Pod", "Deployment"])
@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("yesterday", id="a word"),
        pytest.param("2026-03-01", id="a day"),
        pytest.param("2026-03-01T12:00:00", id="without a zone"),
        pytest.param("2026-02-30T12:00:00Z", id="a day that there is not"),
        pytest.param("10000-01-01T00:00:00Z", id="beyond the end of time"),
        pytest.param({}, id="an object"),
    ],
)
def test_what_is_no_time_is_refused_by_name(run, shop, tmp_path, command, moment, kind):
    with_time(shop, moment, kind)
    complaint = refused(run, command, shop, tmp_path)
    assert complaint.startswith(f"{shop}: {kind} "), complaint
    assert "creationTimestamp" in complaint
