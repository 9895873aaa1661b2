"""Our own writes are visible at once, until the informer has caught up or should have."""

import asyncio
import dataclasses

import pytest

from rescheduler.kube.api_resources import CONFIG_MAPS, NAMESPACES, merge_patch
from rescheduler.kube.informer import Informer, ReadYourWrites

INDICES = {"colour": lambda item: [item["metadata"].get("labels", {}).get("colour")]}


def config_map(name, **labels):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "shop", "name": name, "labels": labels},
    }


@pytest.fixture
async def fresh(client):
    await client.create(NAMESPACES, {"metadata": {"name": "shop"}})
    made = ReadYourWrites(Informer(client, CONFIG_MAPS, indices=INDICES), INDICES)
    async with made.informer.running():
        await made.informer.synced()
        yield made


async def test_what_was_answered_is_there_before_the_informer_has_received_it(fresh, client):
    made = await client.create(CONFIG_MAPS, config_map("a", colour="red"))
    assert fresh.get("shop/a") is None or fresh.informer.get("shop/a") is not None
    fresh.observe(made)
    assert fresh.get("shop/a") == made
    assert fresh.find("colour", "red") == [made]


async def test_a_newer_answer_replaces_the_cached_state_in_every_index(fresh, client):
    await client.create(CONFIG_MAPS, config_map("a", colour="red"))
    await asyncio.sleep(1)
    patch = merge_patch({"metadata": {"labels": {"colour": "blue"}}})
    fresh.observe(await client.patch(CONFIG_MAPS, "shop/a", patch))
    assert fresh.find("colour", "red") == []
    assert [fresh.key(item) for item in fresh.find("colour", "blue")] == ["shop/a"]


async def test_an_older_answer_changes_nothing(fresh, client):
    old = await client.create(CONFIG_MAPS, config_map("a", colour="red"))
    await client.patch(CONFIG_MAPS, "shop/a", merge_patch({"metadata": {"labels": {"colour": "blue"}}}))
    await asyncio.sleep(1)
    fresh.observe(old)
    assert fresh.get("shop/a")["metadata"]["labels"] == {"colour": "blue"}


async def test_what_another_client_removed_is_gone_although_we_wrote_it(fresh, client):
    fresh.observe(await client.create(CONFIG_MAPS, config_map("a")))
    await client.delete(CONFIG_MAPS, "shop/a")
    await asyncio.sleep(1)
    assert fresh.get("shop/a") is None


async def test_what_is_known_to_be_gone_is_gone_at_once_but_not_its_namesake(fresh, client):
    made = await client.create(CONFIG_MAPS, config_map("a"))
    await asyncio.sleep(1)
    await client.delete(CONFIG_MAPS, "shop/a")
    fresh.observe_deleted("shop/a", made["metadata"]["uid"])
    assert fresh.get("shop/a") is None
    again = await client.create(CONFIG_MAPS, config_map("a"))
    await asyncio.sleep(1)
    assert fresh.get("shop/a") == again


async def test_an_answer_is_not_trusted_for_ever(client):
    """The informer may have missed that the object was created and deleted. Here, it does not run."""
    await client.create(NAMESPACES, {"metadata": {"name": "shop"}})
    fresh = ReadYourWrites(Informer(client, CONFIG_MAPS, indices=INDICES), INDICES)
    fresh.observe(await client.create(CONFIG_MAPS, config_map("ghost")))
    made = await client.get(CONFIG_MAPS, "shop/ghost")
    await client.delete(CONFIG_MAPS, "shop/ghost")
    assert fresh.get("shop/ghost") == made
    await asyncio.sleep(31)
    assert fresh.get("shop/ghost") is None


async def test_finding_an_object_does_not_read_all_answers(client):
    """Hundreds of moves write at the same time, and each asks for its own objects."""
    asked = []

    def colours(item):
        asked.append(item["metadata"]["name"])
        return INDICES["colour"](item)

    await client.create(NAMESPACES, {"metadata": {"name": "shop"}})
    made = ReadYourWrites(Informer(client, CONFIG_MAPS, indices={"colour": colours}), {"colour": colours})
    for number in range(50):
        made.observe(await client.create(CONFIG_MAPS, config_map(f"c-{number:02}", colour=f"blue-{number}")))
    asked.clear()
    assert [made.key(item) for item in made.find("colour", "blue-7")] == ["shop/c-07"]
    assert set(asked) == {"c-07"}


async def test_an_answer_that_arrives_after_the_deletion_changes_nothing(fresh, client):
    """The object was read before it was deleted. Nothing would report its deletion again."""
    await client.create(CONFIG_MAPS, config_map("a", colour="red"))
    read = await client.get(CONFIG_MAPS, "shop/a")
    await asyncio.sleep(1)
    await client.delete(CONFIG_MAPS, "shop/a")
    await asyncio.sleep(1)
    fresh.observe(read)
    assert fresh.get("shop/a") is None
    assert fresh.find("colour", "red") == []


async def test_after_a_deletion_another_object_of_the_name_is_seen(fresh, client):
    await client.create(CONFIG_MAPS, config_map("a"))
    await asyncio.sleep(1)
    await client.delete(CONFIG_MAPS, "shop/a")
    await asyncio.sleep(1)
    made = await client.create(CONFIG_MAPS, config_map("a"))
    fresh.observe(made)
    assert fresh.get("shop/a") == made


async def test_deletions_are_forgotten(fresh, client):
    for number in range(100):
        await client.create(CONFIG_MAPS, config_map(f"a-{number}"))
        await client.delete(CONFIG_MAPS, f"shop/a-{number}")
        await asyncio.sleep(1)
    assert len(fresh._deleted) < 50


async def test_finding_objects_does_not_identify_them(client):
    """A namespace may have hundreds of budgets, and each observation of each move asks for all of them."""
    identified = []

    def identify(item):
        identified.append(item["metadata"]["name"])
        return CONFIG_MAPS.identify(item)

    counted = dataclasses.replace(CONFIG_MAPS, identify=identify)
    await client.create(NAMESPACES, {"metadata": {"name": "shop"}})
    made = ReadYourWrites(Informer(client, counted, indices=INDICES), INDICES)
    async with made.informer.running():
        for name in ("b", "c", "a"):
            await client.create(CONFIG_MAPS, config_map(name, colour="red"))
        await asyncio.sleep(1)
        identified.clear()
        assert [item["metadata"]["name"] for item in made.find("colour", "red")] == ["a", "b", "c"]
        assert identified == []
