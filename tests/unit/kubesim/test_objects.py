"""Objects are created, read, changed and deleted with the messages of the real API server."""

import pytest

from kubesim import ApiServer

MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
JSON_PATCH = "application/json-patch+json"
OUTDATED = (
    'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
    "please apply your changes to the latest version and try again"
)


@pytest.fixture
async def stored(api):
    """A config map that is there already."""
    return (await api.post(MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}})).body


class TestCreating:
    async def test_the_server_fills_in_identity_time_and_version(self, api):
        reply = await api.post(MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}})
        metadata = reply.body["metadata"]
        assert reply.status == 201
        assert metadata["namespace"] == "default"
        assert metadata["creationTimestamp"] == "2026-01-01T00:00:00Z"
        assert len(metadata["uid"]) == 36
        assert metadata["resourceVersion"] == str(api.server.store.version)

    async def test_what_only_the_server_may_say_is_overwritten(self, api):
        claimed = {"name": "a", "uid": "mine", "creationTimestamp": "1999-01-01T00:00:00Z", "generation": 9}
        metadata = (await api.post(MAPS, {"metadata": claimed})).body["metadata"]
        assert metadata["uid"] != "mine"
        assert metadata["creationTimestamp"] == "2026-01-01T00:00:00Z"
        assert "generation" not in metadata

    async def test_a_name_is_generated_from_letters_that_make_no_words(self, api):
        names = {
            (await api.post(MAPS, {"metadata": {"generateName": "x-"}})).body["metadata"]["name"]
            for _ in range(50)
        }
        assert len(names) == 50
        assert all(set(name[2:]) <= set("bcdfghjklmnpqrstvwxz2456789") and len(name) == 7 for name in names)

    async def test_a_long_base_is_cut_so_that_the_name_fits(self, api):
        reply = await api.post(MAPS, {"metadata": {"generateName": "x" * 70}})
        assert len(reply.body["metadata"]["name"]) == 63

    async def test_the_same_seed_gives_the_same_uids(self):
        first, second = ApiServer(seed=7), ApiServer(seed=7)
        assert first.cluster.naming.uid() == second.cluster.naming.uid()

    async def test_a_name_is_taken_only_once(self, api, stored):
        reply = await api.post(MAPS, {"metadata": {"name": "a"}})
        assert (reply.status, reply.message) == (409, 'configmaps "a" already exists')
        assert reply.body["reason"] == "AlreadyExists"

    @pytest.mark.parametrize(
        ("target", "content", "status", "message"),
        [
            pytest.param(
                "/api/v1/namespaces/nowhere/configmaps", {"metadata": {"name": "a"}},
                404, 'namespaces "nowhere" not found', id="a namespace that isn't there",
            ),
            pytest.param(
                MAPS, {"metadata": {"name": "a", "namespace": "other"}},
                400, "the namespace of the provided object does not match the namespace sent on the request",
                id="another namespace than the URL's",
            ),
            pytest.param(
                MAPS, {"metadata": {}}, 422,
                'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
                id="no name at all",
            ),
            pytest.param(
                MAPS, {"metadata": {"name": "a", "resourceVersion": "5"}},
                500, "resourceVersion should not be set on objects to be created", id="with a version",
            ),
            pytest.param(
                MAPS + "?dryRun=Maybe", {"metadata": {"name": "a"}}, 422,
                'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Maybe"]: '
                'supported values: "All"', id="a dry run that isn't one",
            ),
            pytest.param(
                MAPS + "?fieldValidation=Strict", {"metadata": {"name": "a"}, "dta": {}}, 400,
                'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
                'unknown field "dta"', id="a misspelt field, strictly",
            ),
        ],
    )  # fmt: skip
    async def test_is_refused(self, api, target, content, status, message):
        reply = await api.post(target, content)
        assert (reply.status, reply.message) == (status, message)

    async def test_a_misspelt_field_is_reported_in_a_warning(self, api):
        reply = await api.post(MAPS, {"metadata": {"name": "a"}, "dta": {}})
        assert reply.status == 201
        assert reply.headers["warning"] == r'299 - "unknown field \"dta\""'

    async def test_a_dry_run_leaves_nothing_behind(self, api):
        before = api.server.store.version
        assert (await api.post(MAPS + "?dryRun=All", {"metadata": {"name": "a"}})).status == 201
        assert (await api.get(MAPS + "/a")).status == 404
        assert api.server.store.version == before

    async def test_yaml_is_understood(self, api):
        reply = await api.post(MAPS, b"metadata: {name: a}", content_type="application/yaml")
        assert reply.status == 201


class TestChanging:
    async def test_each_change_gets_the_next_version_of_the_whole_server(self, api, stored):
        other = await api.post(MAPS, {"metadata": {"name": "b"}})
        changed = await api.put(MAPS + "/a", {"metadata": {"name": "a"}, "data": {"k": "w"}})
        versions = [int(o["metadata"]["resourceVersion"]) for o in (stored, other.body, changed.body)]
        assert versions == [versions[0], versions[0] + 1, versions[0] + 2]

    async def test_an_outdated_version_is_a_conflict(self, api, stored):
        await api.patch(MAPS + "/a", {"data": {"k": "w"}})
        reply = await api.put(MAPS + "/a", stored)
        assert (reply.status, reply.message) == (409, OUTDATED)
        assert reply.body["details"] == {"name": "a", "kind": "configmaps"}

    async def test_an_outdated_version_in_a_patch_is_a_conflict(self, api, stored):
        await api.patch(MAPS + "/a", {"data": {"k": "w"}})
        version = stored["metadata"]["resourceVersion"]
        reply = await api.patch(MAPS + "/a", {"metadata": {"resourceVersion": version}, "data": {"k": "x"}})
        assert (reply.status, reply.message) == (409, OUTDATED)

    async def test_without_a_version_the_newest_is_meant(self, api, stored):
        await api.patch(MAPS + "/a", {"data": {"k": "w"}})
        assert (await api.put(MAPS + "/a", {"metadata": {"name": "a"}})).status == 200

    async def test_some_kinds_insist_on_a_version(self, api):
        await api.post(LEASES, {"metadata": {"name": "l"}, "spec": {}})
        reply = await api.put(LEASES + "/l", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}})
        assert reply.status == 422
        assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in reply.message

    async def test_nothing_changed_is_no_change(self, api, stored):
        again = await api.put(MAPS + "/a", stored)
        patched = await api.patch(MAPS + "/a", {"data": {"k": "v"}})
        assert again.body == patched.body == stored

    async def test_the_uid_of_another_object_is_a_conflict(self, api, stored):
        reply = await api.put(MAPS + "/a", {"metadata": {"name": "a", "uid": "other"}})
        uid = stored["metadata"]["uid"]
        assert reply.status == 409
        assert f"Precondition failed: UID in precondition: other, UID in object meta: {uid}" in reply.message

    async def test_identity_and_times_stay(self, api, stored):
        claimed = {"name": "a", "creationTimestamp": "1999-01-01T00:00:00Z", "generation": 7}
        changed = (await api.put(MAPS + "/a", {"metadata": claimed, "data": {"k": "w"}})).body
        kept = ("uid", "creationTimestamp", "name", "namespace")
        assert {f: changed["metadata"][f] for f in kept} == {f: stored["metadata"][f] for f in kept}

    async def test_a_name_can_not_be_changed(self, api, stored):
        reply = await api.patch(MAPS + "/a", {"metadata": {"name": "b"}})
        assert (reply.status, reply.message) == (
            400, "the name of the object (b) does not match the name on the URL (a)"
        )  # fmt: skip

    async def test_a_put_creates_only_where_the_kind_allows_it(self, api):
        assert (await api.put(MAPS + "/new", {"metadata": {"name": "new"}})).status == 404
        assert (await api.put(LEASES + "/new", {"metadata": {"name": "new"}, "spec": {}})).status == 201

    async def test_a_dry_run_shows_what_would_be(self, api, stored):
        reply = await api.patch(MAPS + "/a?dryRun=All", {"data": {"k": "w"}})
        assert reply.body["data"] == {"k": "w"}
        assert (await api.get(MAPS + "/a")).body == stored


class TestGeneration:
    DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"

    @pytest.fixture
    async def deployed(self, api):
        spec = {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "x"}},
            "template": {
                "metadata": {"labels": {"app": "x"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        }
        reply = await api.post(self.DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})
        assert reply.body["metadata"]["generation"] == 1

    @pytest.mark.parametrize(
        ("path", "patch", "generation"),
        [
            pytest.param("/d", {"spec": {"replicas": 2}}, 2, id="a changed spec raises it"),
            pytest.param("/d", {"metadata": {"labels": {"a": "b"}}}, 1, id="changed metadata does not"),
            pytest.param("/d/status", {"status": {"replicas": 3}}, 1, id="a changed status does not"),
            pytest.param("/d", {"metadata": {"generation": 9}}, 1, id="clients can't set it"),
            pytest.param("/d/scale", {"spec": {"replicas": 5}}, 2, id="scaling raises it"),
        ],
    )
    async def test_counts_changes_of_intent(self, api, deployed, path, patch, generation):
        assert (await api.patch(self.DEPLOYMENTS + path, patch)).status == 200
        assert (await api.get(self.DEPLOYMENTS + "/d")).body["metadata"]["generation"] == generation

    async def test_a_status_write_leaves_the_rest_alone_and_a_plain_write_the_status(self, api, deployed):
        both = {"spec": {"replicas": 7}, "status": {"replicas": 3}, "metadata": {"labels": {"x": "y"}}}
        await api.patch(self.DEPLOYMENTS + "/d/status", both)
        content = (await api.get(self.DEPLOYMENTS + "/d")).body
        assert (content["spec"]["replicas"], content["status"]) == (1, {"replicas": 3})
        assert "labels" not in content["metadata"]
        await api.patch(self.DEPLOYMENTS + "/d", {"spec": {"replicas": 7}, "status": {"replicas": 9}})
        content = (await api.get(self.DEPLOYMENTS + "/d")).body
        assert (content["spec"]["replicas"], content["status"]["replicas"]) == (7, 3)


class TestUnknown:
    @pytest.mark.parametrize(
        ("method", "target", "status"),
        [
            pytest.param("GET", "/nothing/here", 404, id="a path"),
            pytest.param("GET", "/api/v1/widgets", 404, id="a resource"),
            pytest.param("GET", MAPS + "/a/scale", 404, id="a subresource"),
            pytest.param("PUT", "/api/v1/pods", 405, id="a method for a collection"),
            pytest.param("POST", MAPS + "/a", 405, id="a method for an object"),
            pytest.param("POST", "/api/v1/pods", 405, id="creating in all namespaces"),
        ],
    )
    async def test_is_refused_as_the_real_server_does(self, api, method, target, status):
        assert (await api.send(method, target, {})).status == status

    async def test_content_types(self, api):
        assert (await api.post(MAPS, b"<x/>", content_type="text/xml")).status == 415
        assert (await api.get(MAPS, accept="text/csv")).status == 406
        assert (await api.patch(MAPS + "/a", {}, "application/json")).status == 415

    async def test_broken_json(self, api):
        assert (await api.post(MAPS, b"{")).status == 400
