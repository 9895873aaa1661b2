"""A pod whose owner reference names a workload of another namespace has nothing to do with that workload."""

from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.cluster.object_meta import owner_key
from rescheduler.cluster.sources.watched_objects import WatchedObjects
from rescheduler.kube.api_resources import NAMESPACES
from rescheduler.migrations.controller.observation_builder import migration_at, workload_key


async def test_it_is_none_of_its_pods_and_does_not_use_up_its_limit(make_moves):
    moves = await make_moves(nodes=2)
    await moves.sandbox.deployment(1)
    (true,) = await moves.sandbox.pods()
    (reference,) = true["metadata"]["ownerReferences"]
    await moves.client.create(NAMESPACES, {"metadata": {"name": "evil"}})
    true_key = await moves.create_migration(true, await moves.sandbox.free_node())
    forged = await moves.sandbox.pod("bare")
    seen = WatchedObjects(moves.client)
    async with seen.running():
        victim = seen.pods.get(moves.sandbox.key(true["metadata"]["name"]))
        item = {
            **forged,
            "metadata": {**forged["metadata"], "namespace": "evil", "ownerReferences": [reference]},
        }
        pod = seen.learn_pod(item)
        assert (pod.namespace, pod.owner.uid) == ("evil", victim.owner.uid)
        found = seen.pods.find("owner", owner_key(victim.namespace, victim.owner))
        assert [each.key for each in found] == [victim.key]
        migration = migration_at(true_key, seen)
        ours = workload_key(migration, seen)
        deployment = seen.workloads["Deployment"].get(moves.sandbox.key("web"))
        for forged_owner in (
            reference,
            {**reference, "uid": deployment["metadata"]["uid"], "kind": "Deployment"},
        ):
            migration_object = {
                "metadata": {
                    **seen.migrations.get(true_key)["metadata"],
                    "namespace": "evil",
                    "uid": "theirs",
                },
                "spec": {
                    "pod": {"name": pod.name, "uid": pod.uid},
                    "sourceNode": "a",
                },
            }
            seen.learn_pod(
                {
                    **item,
                    "metadata": {
                        **item["metadata"],
                        "ownerReferences": [forged_owner | {"controller": True}],
                    },
                }
            )
            seen.migrations.observe(migration_object)
            theirs = workload_key(migration_at(f"evil/{migration.name}", seen), seen)
            assert theirs
            assert theirs != ours
    assert (await moves.client.list(PODS, namespace="evil")).items == []
