"""Deletion: grace periods, finalizers, preconditions, owners and whole namespaces."""

import pytest

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"


def pod(name="p", **spec):
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


async def make(api, name, owner=None, **metadata):
    if owner is not None:
        metadata["ownerReferences"] = [
            {
                "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"], "blockOwnerDeletion": True,
            }
        ]  # fmt: skip
    return (await api.post(MAPS, {"metadata": {"name": name, **metadata}})).body


class TestPods:
    async def test_one_that_runs_nowhere_goes_at_once(self, api):
        await api.post(PODS, pod())
        assert (await api.delete(PODS + "/p")).status == 200
        assert (await api.get(PODS + "/p")).status == 404

    async def test_one_on_a_node_gets_its_grace_period(self, api):
        await api.post(PODS, pod(nodeName="n", terminationGracePeriodSeconds=20))
        ending = (await api.delete(PODS + "/p")).body["metadata"]
        assert ending["deletionGracePeriodSeconds"] == 20
        assert ending["deletionTimestamp"] == "2026-01-01T00:00:20Z"

    async def test_the_grace_can_be_shortened_but_not_prolonged(self, api):
        await api.post(PODS, pod(nodeName="n"))
        for asked, granted in ((None, 30), (60, 30), (5, 5), (10, 5)):
            options = {} if asked is None else {"gracePeriodSeconds": asked}
            ending = (await api.delete(PODS + "/p", options)).body["metadata"]
            assert ending["deletionGracePeriodSeconds"] == granted

    async def test_without_grace_it_goes_at_once_and_watchers_see_it_end_first(self, api):
        created = (await api.post(PODS, pod(nodeName="n"))).body
        version = created["metadata"]["resourceVersion"]
        await api.delete(PODS + "/p?gracePeriodSeconds=0")
        async with api.watch(f"{PODS}?resourceVersion={version}") as events:
            assert await events.take(2) == [("MODIFIED", "p"), ("DELETED", "p")]

    async def test_finished_ones_go_at_once(self, api):
        await api.post(PODS, pod(nodeName="n"))
        await api.patch(PODS + "/p/status", {"status": {"phase": "Failed"}})
        await api.delete(PODS + "/p")
        assert (await api.get(PODS + "/p")).status == 404


class TestFinalizers:
    async def test_hold_an_object_until_the_last_is_gone(self, api):
        await make(api, "a", finalizers=["x.io/one", "x.io/two"])
        held = await api.delete(MAPS + "/a")
        assert held.body["metadata"]["deletionTimestamp"]
        await api.patch(MAPS + "/a", {"metadata": {"finalizers": ["x.io/two"]}})
        assert (await api.get(MAPS + "/a")).status == 200
        await api.patch(MAPS + "/a", {"metadata": {"finalizers": None}})
        assert (await api.get(MAPS + "/a")).status == 404

    async def test_can_not_be_added_to_what_is_going(self, api):
        await make(api, "a", finalizers=["x.io/one"])
        await api.delete(MAPS + "/a")
        reply = await api.patch(MAPS + "/a", {"metadata": {"finalizers": ["x.io/one", "x.io/new"]}})
        assert reply.status == 422
        assert "no new finalizers can be added if the object is being deleted" in reply.message

    async def test_the_name_stays_taken_meanwhile(self, api):
        await make(api, "a", finalizers=["x.io/one"])
        await api.delete(MAPS + "/a")
        reply = await api.post(MAPS, {"metadata": {"name": "a"}})
        assert reply.message == 'object is being deleted: configmaps "a" already exists'


class TestPreconditions:
    async def test_another_uid(self, api):
        uid = (await make(api, "a"))["metadata"]["uid"]
        reply = await api.delete(MAPS + "/a", {"preconditions": {"uid": "other"}})
        assert reply.status == 409
        assert reply.message == (
            'Operation cannot be fulfilled on ConfigMap "a": the UID in the precondition (other) does not '
            f"match the UID in record ({uid}). The object might have been deleted and then recreated"
        )

    async def test_another_version(self, api):
        await make(api, "a")
        assert (await api.delete(MAPS + "/a", {"preconditions": {"resourceVersion": "1"}})).status == 409

    async def test_the_right_ones(self, api):
        metadata = (await make(api, "a"))["metadata"]
        wanted = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        reply = await api.delete(MAPS + "/a", {"preconditions": wanted})
        assert reply.body["status"] == "Success"
        assert reply.body["details"] == {"name": "a", "kind": "configmaps", "uid": metadata["uid"]}


class TestOwners:
    async def test_what_they_own_goes_after_them(self, api, clock):
        owner = await make(api, "owner")
        child = await make(api, "child", owner)
        await make(api, "grandchild", child)
        await api.delete(MAPS + "/owner")
        assert await api.names(MAPS) == ["child", "grandchild"]
        clock.advance(1)
        assert await api.names(MAPS) == []

    async def test_foreground_they_wait_for_what_they_own(self, api, clock):
        owner = await make(api, "owner")
        await make(api, "child", owner, finalizers=["x.io/busy"])
        await api.delete(MAPS + "/owner", {"propagationPolicy": "Foreground"})
        clock.advance(1)
        assert await api.names(MAPS) == ["child", "owner"]
        await api.patch(MAPS + "/child", {"metadata": {"finalizers": None}})
        clock.advance(1)
        assert await api.names(MAPS) == []

    async def test_foreground_also_what_does_not_hold_them_up_goes_although_they_stay(self, api, clock):
        owner = await make(api, "owner", finalizers=["x.io/busy"])
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "owner",
            "uid": owner["metadata"]["uid"],
        }
        await make(api, "child", ownerReferences=[reference])
        await api.delete(MAPS + "/owner", {"propagationPolicy": "Foreground"})
        clock.advance(1)
        assert await api.names(MAPS) == ["owner"]
        assert (await api.get(MAPS + "/owner")).body["metadata"]["finalizers"] == ["x.io/busy"]

    async def test_orphans_stay_without_them(self, api, clock):
        owner = await make(api, "owner")
        await make(api, "child", owner)
        await api.delete(MAPS + "/owner", {"propagationPolicy": "Orphan"})
        clock.advance(1)
        assert await api.names(MAPS) == ["child"]
        assert "ownerReferences" not in (await api.get(MAPS + "/child")).body["metadata"]

    async def test_an_owner_that_never_was_counts_as_gone(self, api, clock):
        await make(api, "child", {"metadata": {"name": "nobody", "uid": "none"}})
        clock.advance(1)
        assert await api.names(MAPS) == []

    async def test_an_owner_created_again_is_another(self, api, clock):
        owner = await make(api, "owner")
        await api.delete(MAPS + "/owner")
        await make(api, "owner")
        await make(api, "child", owner)
        clock.advance(1)
        assert await api.names(MAPS) == ["owner"]

    async def test_an_owner_in_another_namespace_counts_as_gone(self, api, clock):
        owner = await make(api, "owner")
        await api.post("/api/v1/namespaces", {"metadata": {"name": "other"}})
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "owner",
            "uid": owner["metadata"]["uid"],
        }
        content = {"metadata": {"name": "child", "ownerReferences": [reference]}}
        await api.post("/api/v1/namespaces/other/configmaps", content)
        clock.advance(1)
        assert await api.names("/api/v1/namespaces/other/configmaps") == []

    async def test_one_of_two_owners_is_enough(self, api, clock):
        first, second = await make(api, "first"), await make(api, "second")
        references = [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": o["metadata"]["name"],
                "uid": o["metadata"]["uid"],
            }
            for o in (first, second)
        ]
        await make(api, "child", ownerReferences=references)
        await api.delete(MAPS + "/first")
        clock.advance(1)
        child = (await api.get(MAPS + "/child")).body
        assert child["metadata"]["ownerReferences"] == references[1:]


class TestNamespaces:
    async def test_everything_in_them_goes_first(self, api, clock):
        await api.post("/api/v1/namespaces", {"metadata": {"name": "x"}})
        inside = "/api/v1/namespaces/x/configmaps"
        await api.post(inside, {"metadata": {"name": "a"}})
        await api.post(inside, {"metadata": {"name": "held", "finalizers": ["x.io/y"]}})
        ending = (await api.delete("/api/v1/namespaces/x")).body
        assert ending["status"]["phase"] == "Terminating"
        clock.advance(1)
        assert await api.names(inside) == ["held"]
        refused = await api.post(inside, {"metadata": {"name": "late"}})
        assert refused.status == 403
        assert refused.message == (
            'configmaps "late" is forbidden: unable to create new content in namespace x '
            "because it is being terminated"
        )
        await api.patch(inside + "/held", {"metadata": {"finalizers": None}})
        clock.advance(1)
        assert (await api.get("/api/v1/namespaces/x")).status == 404


@pytest.mark.parametrize("selector", ["labelSelector=a%3Db", "fieldSelector=metadata.name%3Done"])
async def test_a_collection_is_deleted_as_far_as_it_is_selected(api, selector):
    await make(api, "one", labels={"a": "b"})
    await make(api, "two")
    assert (await api.delete(f"{MAPS}?{selector}")).status == 200
    assert await api.names(MAPS) == ["two"]
