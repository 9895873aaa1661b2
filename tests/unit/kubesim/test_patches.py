"""The four types of patches: laws, properties, and the results of the real server's own library."""

import json
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.apiserver.kind_registry import BUILT_IN
from kubesim.patches.json_patches import BadPatch, PatchFailed, json_patch, merge_patch
from kubesim.patches.managed_fields import fields_of, from_fields_v1, to_fields_v1
from kubesim.patches.merge_schema import schema_of
from kubesim.patches.server_side_apply import ApplyConflict, apply, track_update
from kubesim.patches.strategic_merge import BadStrategicPatch, strategic_merge

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KINDS = {kind.name: kind for kind in BUILT_IN if kind.group in {"", "apps"}}
POD = schema_of(KINDS["Pod"])

scalars = st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab/~", max_size=3)
names = st.text("ab/~", min_size=1, max_size=2)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=12,
)
maps = st.dictionaries(names, documents, max_size=4)


def without_nulls(value):
    if isinstance(value, dict):
        return {name: without_nulls(part) for name, part in value.items() if part is not None}
    return value


class TestMergePatch:
    @given(documents, documents)
    def test_changes_neither_argument(self, document, patch):
        before = deepcopy((document, patch))
        merge_patch(document, patch)
        assert (document, patch) == before

    @given(documents, documents)
    def test_twice_is_once(self, document, patch):
        once = merge_patch(document, patch)
        assert merge_patch(once, patch) == once

    @given(maps)
    def test_an_empty_patch_changes_nothing(self, document):
        assert merge_patch(document, {}) == document

    @given(documents, documents.filter(lambda value: not isinstance(value, dict)))
    def test_what_is_no_map_replaces_everything(self, document, patch):
        assert merge_patch(document, patch) == patch

    @given(maps, maps)
    def test_null_removes_and_all_else_is_there_afterwards(self, document, patch):
        merged = merge_patch(document, patch)
        for name, value in patch.items():
            if value is None:
                assert name not in merged
            elif not isinstance(value, dict):
                assert merged[name] == value
        assert all(merged[name] == document[name] for name in document.keys() - patch.keys())

    @given(maps, maps)
    def test_a_difference_can_always_be_expressed(self, old, new):
        old, new = without_nulls(old), without_nulls(new)
        patch = {
            **dict.fromkeys(old.keys() - new.keys()),
            **{n: v for n, v in new.items() if old.get(n) != v},
        }
        patch = {name: value for name, value in patch.items() if not isinstance(value, dict)}
        merged = merge_patch(old, patch)
        assert all(merged.get(name) == new.get(name) for name in patch)

    # The table of RFC 7386, appendix A.
    @pytest.mark.parametrize(
        ("original", "patch", "result"),
        [
            ({"a": "b"}, {"a": "c"}, {"a": "c"}),
            ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
            ({"a": "b"}, {"a": None}, {}),
            ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
            ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
            ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
            ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
            ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
            (["a", "b"], ["c", "d"], ["c", "d"]),
            ({"a": "b"}, ["c"], ["c"]),
            ({"a": "foo"}, None, None),
            ({"a": "foo"}, "bar", "bar"),
            ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
            ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
            ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ],
    )
    def test_does_what_its_rfc_shows(self, original, patch, result):
        assert merge_patch(original, patch) == result


def pointers(value, path=""):
    """All places in a document."""
    yield path
    if isinstance(value, dict):
        for name, part in value.items():
            yield from pointers(part, f"{path}/{name.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for position, part in enumerate(value):
            yield from pointers(part, f"{path}/{position}")


class TestJsonPatch:
    @given(st.data(), maps, documents)
    def test_add_and_remove_undo_each_other(self, data, document, value):
        name = data.draw(names.filter(lambda name: name not in document))
        path = "/" + name.replace("~", "~0").replace("/", "~1")
        added = json_patch(document, [{"op": "add", "path": path, "value": value}])
        assert added[name] == value
        assert json_patch(added, [{"op": "remove", "path": path}]) == document

    @given(st.data(), maps)
    def test_every_place_passes_the_test_for_what_is_there(self, data, document):
        path = data.draw(st.sampled_from(list(pointers(document))))
        value = document
        for step in path.split("/")[1:]:
            part = step.replace("~1", "/").replace("~0", "~")
            value = value[int(part)] if isinstance(value, list) else value[part]
        assert json_patch(document, [{"op": "test", "path": path, "value": value}]) == document

    @given(st.data(), maps)
    def test_a_copy_is_a_copy_and_a_move_moves(self, data, document):
        path = data.draw(st.sampled_from([place for place in pointers(document) if place] or [""]))
        if not path:
            return
        copied = json_patch(document, [{"op": "copy", "from": path, "path": "/new"}])
        moved = json_patch(document, [{"op": "move", "from": path, "path": "/new"}])
        assert copied["new"] == moved["new"]
        assert json_patch(copied, [{"op": "remove", "path": path}]) == moved

    @given(maps)
    def test_nothing_happens_unless_everything_does(self, document):
        before = deepcopy(document)
        steps = [{"op": "add", "path": "/x", "value": 1}, {"op": "test", "path": "/x", "value": 2}]
        with pytest.raises(PatchFailed):
            json_patch(document, steps)
        assert document == before

    @pytest.mark.parametrize(
        ("document", "step", "result"),
        [
            ({"a": [1, 3]}, {"op": "add", "path": "/a/1", "value": 2}, {"a": [1, 2, 3]}),
            ({"a": [1]}, {"op": "add", "path": "/a/-", "value": 2}, {"a": [1, 2]}),
            ({"a": [1, 2]}, {"op": "remove", "path": "/a/0"}, {"a": [2]}),
            ({"a/b": 1}, {"op": "replace", "path": "/a~1b", "value": 2}, {"a/b": 2}),
            ({"a": 1}, {"op": "replace", "path": "", "value": {}}, {}),
            ({}, {"op": "replace", "path": "/a", "value": 1}, {"a": 1}),  # as the real server does
            ({}, {"op": "test", "path": "/a", "value": None}, {}),  # as the real server does
        ],
    )
    def test_does(self, document, step, result):
        assert json_patch(document, [step]) == result

    @pytest.mark.parametrize(
        "step",
        [
            {"op": "remove", "path": "/b"},
            {"op": "add", "path": "/b/c", "value": 1},
            {"op": "add", "path": "/a/3", "value": 1},
            {"op": "add", "path": "/a/01", "value": 1},
            {"op": "test", "path": "/a/0", "value": True},
            {"op": "move", "from": "/a", "path": "/a/0"},
            {"op": "fly", "path": "/a"},
            {"op": "add", "path": "a", "value": 1},
            {"op": "add", "path": "/b"},
        ],
    )
    def test_refuses(self, step):
        with pytest.raises(PatchFailed):
            json_patch({"a": [1]}, [step])

    @pytest.mark.parametrize("patch", [{}, ["x"], "add"])
    def test_is_a_list_of_operations(self, patch):
        with pytest.raises(BadPatch):
            json_patch({}, patch)


def samples():
    lines = Path(__file__).with_name("samples").joinpath("strategic_merge.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


class TestStrategicMerge:
    @pytest.mark.parametrize("sample", samples(), ids=lambda sample: "")
    def test_agrees_with_the_library_of_the_real_server(self, sample):
        """Random patches with directives of all sorts, and what its strategicpatch made of them."""
        schema = schema_of(KINDS[sample["kind"]])
        if sample.get("failed"):
            with pytest.raises(BadStrategicPatch):
                strategic_merge(sample["original"], sample["patch"], schema)
        else:
            merged = strategic_merge(sample["original"], sample["patch"], schema)
            assert json.dumps(merged, sort_keys=True) == json.dumps(sample["result"], sort_keys=True)

    @given(maps, maps)
    def test_without_lists_it_is_a_merge_patch(self, document, patch):
        plain = {"metadata": {"annotations": {n: str(v) for n, v in document.items()}}}
        change = {"metadata": {"annotations": {n: None if v is None else str(v) for n, v in patch.items()}}}
        assert strategic_merge(plain, change, POD) == merge_patch(plain, change)

    def test_containers_are_merged_by_name_and_new_ones_come_first(self):
        pod = {"spec": {"containers": [{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}]}}
        patch = {"spec": {"containers": [{"name": "b", "image": "2"}, {"name": "a", "env": [{"name": "Y"}]}]}}
        merged = strategic_merge(pod, patch, POD)["spec"]["containers"]
        assert [container["name"] for container in merged] == ["b", "a"]
        assert merged[1] == {"name": "a", "image": "1", "env": [{"name": "Y"}, {"name": "X", "value": "1"}]}

    def test_tolerations_and_taints_are_replaced_as_a_whole(self):
        pod = {"spec": {"tolerations": [{"key": "a"}]}}
        assert strategic_merge(pod, {"spec": {"tolerations": [{"key": "b"}]}}, POD) == {
            "spec": {"tolerations": [{"key": "b"}]}
        }

    def test_owners_are_distinguished_by_uid(self):
        pod = {"metadata": {"ownerReferences": [{"uid": "1", "controller": True}, {"uid": "2"}]}}
        patch = {"metadata": {"ownerReferences": [{"uid": "1", "controller": False}]}}
        merged = strategic_merge(pod, patch, POD)["metadata"]["ownerReferences"]
        assert merged == [{"uid": "1", "controller": False}, {"uid": "2"}]


def configuration(**spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def applied(live, wanted, manager="me", *, force=False):
    return apply(live, wanted, POD, manager=manager, force=force, now=NOW)


class TestApply:
    def test_creates_what_is_not_there_and_remembers_who_wanted_it(self):
        created = applied(None, configuration(hostNetwork=True))
        (entry,) = created["metadata"]["managedFields"]
        assert (entry["manager"], entry["operation"]) == ("me", "Apply")
        assert entry["fieldsV1"] == {"f:spec": {"f:hostNetwork": {}}}

    def test_what_is_no_longer_wanted_goes_unless_someone_else_wants_it(self):
        live = applied(None, configuration(a="1", b="2", c="3"))
        live = applied(live, configuration(b="2"), "other")
        live = applied(live, configuration(a="1"))
        assert live["spec"] == {"a": "1", "b": "2"}

    def test_list_items_are_ours_or_theirs(self):
        live = applied(None, configuration(containers=[{"name": "a", "image": "1"}]))
        live = applied(live, configuration(containers=[{"name": "b", "image": "2"}]), "other")
        assert [c["name"] for c in live["spec"]["containers"]] == ["a", "b"]
        live = applied(live, configuration())
        assert live["spec"]["containers"] == [{"name": "b", "image": "2"}]

    def test_another_opinion_is_a_conflict_unless_forced(self):
        live = applied(None, configuration(containers=[{"name": "a", "image": "1"}]))
        wanted = configuration(containers=[{"name": "a", "image": "2"}])
        with pytest.raises(ApplyConflict) as refused:
            applied(live, wanted, "other")
        assert [tuple(c) for c in refused.value.conflicts] == [
            ("me", '.spec.containers[name="a"].image', "Apply")
        ]
        forced = applied(live, wanted, "other", force=True)
        assert forced["spec"]["containers"][0]["image"] == "2"
        assert applied(forced, configuration(), "me")["spec"]["containers"][0]["image"] == "2"

    def test_the_same_opinion_is_shared(self):
        live = applied(None, configuration(a="1"))
        live = applied(live, configuration(a="1"), "other")
        assert applied(live, configuration())["spec"] == {"a": "1"}
        assert not applied(applied(live, configuration()), configuration(), "other").get("spec")

    def test_who_updates_a_field_owns_it(self):
        live = applied(None, configuration(a="1"))
        changed = deepcopy(live)
        changed["spec"]["a"] = "2"
        track_update(live, changed, POD, manager="editor", now=NOW)
        with pytest.raises(ApplyConflict) as refused:
            applied(changed, configuration(a="1"))
        assert refused.value.conflicts[0].manager == "editor"

    def test_what_was_there_before_the_first_apply_has_no_manager(self):
        live = {"apiVersion": "v1", "metadata": {"name": "p"}, "spec": {"a": "1"}}
        with pytest.raises(ApplyConflict) as refused:
            applied(live, configuration(a="2"))
        assert refused.value.conflicts[0].manager == "before-first-apply"

    @given(maps.map(lambda spec: {name.replace("/", "x"): value for name, value in spec.items()}))
    def test_applying_again_changes_nothing(self, spec):
        once = applied(None, configuration(**{f"f{name}": value for name, value in spec.items()}))
        again = applied(once, configuration(**{f"f{name}": value for name, value in spec.items()}))
        assert again == once

    @given(maps)
    def test_field_sets_survive_being_written_down(self, spec):
        fields = fields_of({"spec": spec}, POD)
        assert from_fields_v1(to_fields_v1(fields)) == fields


class TestOverTheApi:
    MAPS = "/api/v1/namespaces/default/configmaps"
    APPLY = "application/apply-patch+yaml"

    async def test_conflicts_are_worded_as_the_real_server_words_them(self, api):
        def wanted(**data):
            return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}

        target = self.MAPS + "/a?fieldManager="
        assert (await api.patch(target + "m1", wanted(x="1", y="1"), self.APPLY)).status == 201
        one = await api.patch(target + "m2", wanted(x="2"), self.APPLY)
        assert (one.status, one.message) == (409, 'Apply failed with 1 conflict: conflict with "m1": .data.x')
        two = await api.patch(target + "m2", wanted(x="2", y="2"), self.APPLY)
        assert two.message == 'Apply failed with 2 conflicts: conflicts with "m1":\n- .data.x\n- .data.y'
        assert [cause["reason"] for cause in two.body["details"]["causes"]] == ["FieldManagerConflict"] * 2
        await api.send("PATCH", self.MAPS + "/a", {"data": {"x": "3"}},
                       content_type="application/merge-patch+json", user_agent="editor/1.0")  # fmt: skip
        edited = await api.patch(target + "m1", wanted(x="1", y="1"), self.APPLY)
        assert edited.message == ('Apply failed with 1 conflict: conflict with "editor" using v1: .data.x')
        forced = await api.patch(target + "m1&force=true", wanted(x="1", y="1"), self.APPLY)
        assert forced.body["data"] == {"x": "1", "y": "1"}

    async def test_an_apply_needs_a_manager(self, api):
        reply = await api.patch(self.MAPS + "/a", {}, self.APPLY)
        assert reply.message == (
            'PatchOptions.meta.k8s.io "" is invalid: '
            "fieldManager: Required value: is required for apply patch"
        )

    async def test_a_failed_test_is_reported_in_the_real_servers_few_words(self, api):
        await api.post(self.MAPS, {"metadata": {"name": "a"}})
        steps = [{"op": "test", "path": "/data", "value": {"x": "y"}}]
        reply = await api.patch(self.MAPS + "/a", steps, "application/json-patch+json")
        assert (reply.status, reply.message) == (
            422, "the server rejected our request due to an error in our request"
        )  # fmt: skip
