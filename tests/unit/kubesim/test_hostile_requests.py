"""Any bytes get a response: no request can make the server fail."""

import json

import pytest

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
LONG = "9" * 5000
DEEP = b'{"a":' * 100_000


@pytest.fixture
async def api(api):
    await api.post(MAPS, {"metadata": {"name": "m"}})
    await api.post(PODS, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    return api


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("//[", 404),
        ("http://[x/api", 404),
        (f"{MAPS}?resourceVersion={LONG}", 400),
        (f"{MAPS}?limit={LONG}", 400),
        (f"{MAPS}?watch=1&timeoutSeconds=nan", 400),
        (f"{MAPS}?watch=1&timeoutSeconds=1e400", 400),
        (f"{MAPS}?watch=1&timeoutSeconds={LONG}", 400),
        (f"{MAPS}?watch=1&resourceVersion={LONG}", 500),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_addresses(api, target, status):
    assert (await api.get(target)).status == status


async def test_a_watch_may_be_asked_to_last_for_ages(api):
    async with api.watch(f"{MAPS}?timeoutSeconds=99999999999999") as events:
        assert await events.take(1) == [("ADDED", "m")]


@pytest.mark.parametrize(
    "way", ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"]
)
@pytest.mark.parametrize(
    "body",
    [
        DEEP,
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"\xff": 1}',
        b"a: &a [*a]",
        b"? {a: b}\n: c",
        b"null: 1",
        b"k8s\0\xff",
    ],
    ids=lambda body: repr(body[:20]),
)
async def test_bodies_that_can_not_be_read(api, way, body):
    assert (await api.send("POST", MAPS, body, content_type=way)).status == 400


@pytest.mark.parametrize(
    "body",
    [
        {"apiVersion": 1.5},
        {"kind": [None]},
        {"metadata": ["x"]},
        {"metadata": ""},
        {"apiVersion": True, "kind": 1},
    ],
    ids=json.dumps,
)
@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_objects_without_a_readable_type_or_metadata(api, method, body):
    target = MAPS if method == "POST" else f"{MAPS}/m"
    assert (await api.send(method, target, {"metadata": {"name": "m"}, **body})).status == 400


@pytest.mark.parametrize(
    ("way", "body"),
    [
        ("application/merge-patch+json", DEEP),
        ("application/json-patch+json", b'{"\xff": 1}'),
        ("application/apply-patch+yaml", b'{"apiVersion": 1.5, "kind": "ConfigMap"}'),
        ("application/apply-patch+yaml", b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": [1]}'),
        ("application/apply-patch+yaml", b"a: &a [*a]"),
    ],
    ids=["deep", "not UTF-8", "a number as version", "a list as metadata", "an endless list"],
)
async def test_patches_that_can_not_be_read(api, way, body):
    assert (await api.patch(f"{MAPS}/m?fieldManager=x", body, way)).status == 400


async def test_an_apply_without_metadata_takes_its_name_from_the_address(api):
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": None, "data": {"a": "b"}}
    answer = await api.patch(f"{MAPS}/new?fieldManager=x", applied, "application/apply-patch+yaml")
    assert (answer.status, answer.body["metadata"]["name"]) == (201, "new")


async def test_a_status_that_is_no_object(api):
    pod = (await api.get(f"{PODS}/p")).body
    assert (await api.put(f"{PODS}/p/status", pod | {"status": ["x"]})).status == 400


@pytest.mark.parametrize(
    "options",
    [
        {"gracePeriodSeconds": "x"},
        {"gracePeriodSeconds": [1]},
        {"preconditions": 1},
        {"preconditions": {"uid": 1}},
        {"propagationPolicy": 1},
        {"orphanDependents": "x"},
        {"dryRun": 1},
    ],
    ids=json.dumps,
)
async def test_delete_options_that_make_no_sense_delete_nothing(api, options):
    assert (await api.delete(f"{PODS}/p", options)).status == 400
    assert (await api.get(f"{PODS}/p")).status == 200


@pytest.mark.parametrize("grace", ["x", LONG], ids=["a word", "endless"])
async def test_a_grace_period_that_is_no_number_deletes_nothing(api, grace):
    assert (await api.delete(f"{PODS}/p?gracePeriodSeconds={grace}")).status == 400
    assert (await api.get(f"{PODS}/p")).status == 200


@pytest.mark.parametrize("grace", [10**11, 10**17])
async def test_a_grace_period_of_ages_is_cut_to_what_a_date_can_say(api, grace):
    await api.post("/api/v1/nodes", {"metadata": {"name": "n"}})
    binding = {"metadata": {"name": "p"}, "target": {"name": "n"}}
    assert (await api.post(f"{PODS}/p/binding", binding)).status == 201
    assert (await api.delete(f"{PODS}/p", {"gracePeriodSeconds": grace})).status == 200


async def test_the_admin_endpoint(api):
    assert (await api.delete(f"/simulator/faults/{LONG}")).status == 404
    assert (await api.delete("/simulator/faults/x")).status == 404
    assert (await api.post("/simulator/faults", DEEP)).status == 400
    review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert (await api.post(review, [])).status == 400
