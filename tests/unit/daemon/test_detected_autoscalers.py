"""The daemon finds node autoscalers by what the server shows, and says so in its status."""

from rescheduler.kube.api_resources import CONFIG_MAPS, NAMESPACES


async def test_the_cluster_autoscaler_is_found_by_its_status(
    make_moves, start, client, server, status, eventually
):
    await make_moves(2)
    stamp = server.clock.now().strftime("%Y-%m-%d %H:%M:%S.000000000 +0000 UTC")
    if "kube-system" not in {each["metadata"]["name"] for each in (await client.list(NAMESPACES)).items}:
        await client.create(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}}
        )
    metadata = {
        "namespace": "kube-system",
        "name": "cluster-autoscaler-status",
        "annotations": {"cluster-autoscaler.kubernetes.io/last-updated": stamp},
    }
    await client.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    running = await start()
    await running.until_checked(1)

    async def found():
        written = await status()
        return written is not None and written.autoscalers

    (autoscaler,) = await eventually(found, 60)
    assert autoscaler.name == "clusterAutoscaler"
    assert autoscaler.how == "ConfigMap kube-system/cluster-autoscaler-status"
    # It is uninstalled: its status is not written any more.
    checks = running.received.checks
    await running.until(lambda: len(checks) > 25, timeout_s=1000)
    assert not await found()
