"""Lists: selectors, pages, versions."""

import pytest

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
async def five(api):
    for name in "abcde":
        await api.post(
            MAPS, {"metadata": {"name": name, "labels": {"half": "first" if name < "c" else "second"}}}
        )


class TestPages:
    async def test_follow_each_other_until_all_is_reported(self, api, five):
        seen, token, remaining = [], "", []
        while True:
            page = (await api.get(f"{MAPS}?limit=2&continue={token}")).body
            seen += [item["metadata"]["name"] for item in page["items"]]
            remaining.append(page["metadata"].get("remainingItemCount"))
            token = page["metadata"].get("continue")
            if not token:
                break
        assert seen == list("abcde")
        assert remaining == [3, 1, None]

    async def test_show_one_moment_whatever_happens_between_them(self, api, five):
        first = (await api.get(MAPS + "?limit=2")).body
        await api.delete(MAPS + "/d")
        await api.post(MAPS, {"metadata": {"name": "bb"}})
        await api.patch(MAPS + "/e", {"data": {"changed": "yes"}})
        second = (await api.get(f"{MAPS}?limit=9&continue={first['metadata']['continue']}")).body
        assert [item["metadata"]["name"] for item in second["items"]] == list("cde")
        assert "data" not in second["items"][2]
        assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]

    async def test_expire_with_their_version_and_offer_to_go_on_inconsistently(self, api, five):
        token = (await api.get(MAPS + "?limit=2")).body["metadata"]["continue"]
        await api.delete(MAPS + "/d")
        api.server.store.compact()
        gone = await api.get(f"{MAPS}?limit=9&continue={token}")
        assert (gone.status, gone.body["reason"]) == (410, "Expired")
        assert "The provided continue parameter is too old" in gone.message
        rest = await api.names(f"{MAPS}?continue={gone.body['metadata']['continue']}")
        assert rest == ["c", "e"]

    async def test_of_version_0_there_is_only_one_as_from_the_real_servers_cache(self, api, five):
        assert len(await api.names(MAPS + "?limit=2&resourceVersion=0")) == 5


class TestVersions:
    async def test_an_exact_one_shows_what_was(self, api, five):
        version = (await api.get(MAPS)).body["metadata"]["resourceVersion"]
        await api.delete(MAPS + "/a")
        exact = f"{MAPS}?resourceVersion={version}&resourceVersionMatch=Exact"
        assert await api.names(exact) == list("abcde")
        assert await api.names(f"{MAPS}?resourceVersion={version}") == list("bcde")
        api.server.store.compact()
        assert (await api.get(exact)).status == 410

    async def test_one_that_is_yet_to_come_times_out(self, api):
        reply = await api.get(MAPS + "?resourceVersion=99999")
        assert (reply.status, reply.body["reason"]) == (504, "Timeout")
        assert reply.message.startswith("Timeout: Too large resource version: 99999, current: ")
        assert reply.body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"

    @pytest.mark.parametrize(
        ("query", "status"),
        [
            pytest.param("resourceVersion=abc", 400, id="not a number"),
            pytest.param("resourceVersionMatch=Exact", 422, id="how to match, but not what"),
            pytest.param("resourceVersionMatch=Exact&resourceVersion=0", 422, id="exactly any"),
            pytest.param("resourceVersionMatch=About&resourceVersion=1", 422, id="an unknown way to match"),
            pytest.param("limit=many", 400, id="not a limit"),
            pytest.param("continue=???", 400, id="not a token"),
        ],
    )
    async def test_nonsense_is_refused(self, api, query, status):
        assert (await api.get(f"{MAPS}?{query}")).status == status


class TestSelectors:
    @pytest.mark.parametrize(
        ("query", "names"),
        [
            ("labelSelector=half%3Dfirst", "ab"),
            ("labelSelector=half+in+(second)", "cde"),
            ("labelSelector=half%3Dsecond&fieldSelector=metadata.name!%3Dd", "ce"),
            ("fieldSelector=metadata.name%3Db", "b"),
            ("fieldSelector=metadata.name%3Db,metadata.namespace%3Dother", ""),
            ("labelSelector=!half", ""),
        ],
    )
    async def test_choose(self, api, five, query, names):
        assert await api.names(f"{MAPS}?{query}") == list(names)

    async def test_pods_are_chosen_by_node_and_phase(self, api):
        for name, node in (("p", "n1"), ("q", "n2")):
            spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
            await api.post(PODS, {"metadata": {"name": name}, "spec": spec})
        await api.patch(PODS + "/p/status", {"status": {"phase": "Running"}})
        assert await api.names("/api/v1/pods?fieldSelector=spec.nodeName%3Dn1") == ["p"]
        assert await api.names("/api/v1/pods?fieldSelector=status.phase%3DPending") == ["q"]

    @pytest.mark.parametrize(
        ("target", "message"),
        [
            ("/api/v1/pods", "field label not supported: spec.foo"),
            (
                "/apis/apps/v1/deployments",
                '"spec.foo" is not a known field selector: only "metadata.name", "metadata.namespace"',
            ),
            ("/apis/batch/v1/jobs", 'field label "spec.foo" not supported for Job'),
        ],
    )
    async def test_unknown_fields_are_refused_in_the_kinds_own_words(self, api, target, message):
        reply = await api.get(target + "?fieldSelector=spec.foo%3D1")
        assert (reply.status, reply.message) == (400, message)


class TestForms:
    async def test_items_of_built_in_kinds_do_not_repeat_their_kind(self, api, five):
        content = (await api.get(MAPS)).body
        assert (content["kind"], content["apiVersion"]) == ("ConfigMapList", "v1")
        assert "kind" not in content["items"][0]

    async def test_a_table_for_kubectl(self, api, five):
        reply = await api.get(MAPS, accept="application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
        assert reply.body["kind"] == "Table"
        assert [row["cells"][0] for row in reply.body["rows"]] == list("abcde")

    async def test_bare_metadata(self, api, five):
        reply = await api.get(MAPS, accept="application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
        assert reply.body["kind"] == "PartialObjectMetadataList"
        assert {"kind", "apiVersion", "metadata"} == reply.body["items"][0].keys()

    async def test_protobuf_first_and_json_second_gives_json(self, api, five):
        reply = await api.get(MAPS, accept="application/vnd.kubernetes.protobuf, application/json")
        assert reply.headers["content-type"] == "application/json"

    async def test_both_groups_of_events_show_the_same_ones(self, api):
        event = {
            "metadata": {"name": "e"}, "note": "hello", "regarding": {"kind": "Pod", "name": "p"},
            "reportingController": "x.io/y", "reportingInstance": "z", "action": "Go", "reason": "R",
            "type": "Normal", "eventTime": "2026-01-01T00:00:00.000000Z",
        }  # fmt: skip
        created = await api.post("/apis/events.k8s.io/v1/namespaces/default/events", event)
        assert (created.status, created.body["note"]) == (201, "hello")
        selector = "fieldSelector=involvedObject.name%3Dp"
        core = (await api.get(f"/api/v1/namespaces/default/events?{selector}")).body["items"][0]
        assert (core["message"], core["involvedObject"]["name"]) == ("hello", "p")
