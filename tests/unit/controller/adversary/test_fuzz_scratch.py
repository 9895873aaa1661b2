import asyncio, os, random, contextlib
from datetime import timedelta
import pytest
import tests.e2e.facts.objects as o
from tests.e2e.facts.adopt import ready_since
from tests.e2e.facts.stage import node_of
from rescheduler.kube.resources import *
from rescheduler.kube.resources import PODS, NODES, DEPLOYMENTS, NAMESPACES, STATEFUL_SETS, POD_DISRUPTION_BUDGETS
from rescheduler.kube.patches import merge_patch
from rescheduler.kube import errors
from rescheduler.controller.followed import POD_MIGRATIONS
from rescheduler.model.migrations import migration_of
from rescheduler.simulator.faults import Fault

SEEDS = range(int(os.environ.get("FROM", 0)), int(os.environ.get("TO", 40)))

def show(m):
    print("   ", m.status.started_at, m.status.handed_over_at, m.status.finished_at, m.name, m.status.phase, m.status.step, m.status.handover, m.status.failure, m.status.attempts, m.status.message)

async def sure(coro_fn):
    for _ in range(400):
        try: return await coro_fn()
        except (errors.NotFound, errors.AlreadyExists, errors.Invalid): return None
        except (errors.KubeError, ConnectionError): await asyncio.sleep(0.05)

async def statefulset(client, moves, n):
    spec = o.pod_spec(moves.stage.kubelet.name)
    item = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"namespace": "moves", "name": "db"},
        "spec": {"replicas": n, "podManagementPolicy": "Parallel", "serviceName": "db", "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}}, "spec": spec}}}
    await client.create(STATEFUL_SETS, item)
    await moves.stage.until_ready(n)

@pytest.mark.parametrize("seed", SEEDS)
async def test_fuzz(set_moves, client, server, connect, seed):
    dice = random.Random(seed)
    kind = dice.choice(["Deployment", "Deployment", "Bare", "StatefulSet"])
    moves = await set_moves(4, max_concurrent_per_workload=dice.choice([1, 2]), migration_timeout=timedelta(seconds=dice.choice([20, 120])))
    replicas = dice.choice([1, 2, 3])
    if kind == "Deployment": await moves.stage.deployment(replicas)
    elif kind == "StatefulSet": await statefulset(client, moves, replicas)
    else:
        replicas = 1
        await moves.stage.pod("bare", metadata={"labels": {"app": "web"}})
        await moves.stage.until_ready(1)
    startup = dice.choice(["0s", "0s", "1s", "40s"])
    moves.stage.behave({"startup": startup, "termination": dice.choice(["0s", "2s"])})
    if dice.random() < .5: await moves.stage.budget(min_available=None) if False else None
    log, gentle, wanted = [], True, replicas
    pods = await moves.stage.pods()
    sources = pods[: dice.choice([1, 1, 2])]
    keys = []
    grp = {"group": "g", "groupSize": len(sources)} if len(sources) == 2 and dice.random() < .4 and kind == "Deployment" else {}
    target = await moves.stage.free_node()
    for s in sources: keys.append(await moves.wish(s, target if target != node_of(s) else next(n for n in moves.stage.nodes if n != node_of(s)), **grp))
    key, src = keys[0], sources[0]
    src_uid = src["metadata"]["uid"]
    state = {"lost": False, "deleted_by_user": False}
    stack = contextlib.AsyncExitStack()
    cur = {}
    async def begin():
        c = contextlib.AsyncExitStack(); await c.enter_async_context(moves.executing(connect())); cur["c"] = c
    async def restart():
        await cur["c"].aclose(); await begin()
    async def two_at_once():
        c = contextlib.AsyncExitStack(); await c.enter_async_context(moves.executing(connect())); stack.push_async_callback(c.aclose)
    async def copy():
        items = (await sure(lambda: client.list(PODS.as_json, namespace="moves"))).items
        return [p for p in items if p["metadata"].get("labels", {}).get("scheduler.alpha.kubernetes.io/migration-id") == key.split("/")[1] and p["metadata"]["uid"] != src_uid]
    async def a_cancel(): await sure(lambda: client.delete(POD_MIGRATIONS, key))
    async def a_force():
        await sure(lambda: client.patch(POD_MIGRATIONS, key, merge_patch({"metadata": {"finalizers": None}})))
        await sure(lambda: client.delete(POD_MIGRATIONS, key))
    async def a_pdb(): await sure(lambda: client.create(POD_DISRUPTION_BUDGETS, o.budget("moves", "theirs", "web", minAvailable=replicas)))
    async def a_nopdb(): await sure(lambda: client.delete(POD_DISRUPTION_BUDGETS, "moves/theirs"))
    async def a_500(): server.faults.add(Fault("internal-error", times=dice.choice([3, 30]), probability=.6))
    async def a_409(): server.faults.add(Fault("conflict", times=dice.choice([3, 30])))
    async def a_429(): server.faults.add(Fault("too-many-requests", times=5, retry_after_s=dice.choice([None, 1, 20])))
    async def a_lose(): server.faults.add(Fault("lose-response", times=3))
    async def a_drop(): server.faults.add(Fault("drop-watches"))
    async def a_delcopy():
        print('COPY', [(x['metadata']['name'], x['status'].get('phase'), x['metadata'].get('ownerReferences')) for x in await copy()], 'SOURCE', [x['metadata'].get('deletionTimestamp') for x in (await client.list(PODS.as_json, namespace='moves')).items if x['metadata']['uid']==src_uid])
        for p in await copy(): await sure(lambda: client.delete(PODS.as_json, f"moves/{p['metadata']['name']}"))
    async def a_delsource(): state["deleted_by_user"] = True; await sure(lambda: client.delete(PODS.as_json, f"moves/{src['metadata']['name']}", uid=src_uid))
    async def a_deltarget(): await sure(lambda: client.delete(NODES, target))
    async def a_delsourcenode(): state["lost"] = True; await sure(lambda: client.delete(NODES, node_of(src)))
    async def a_losetarget(): await sure(lambda: moves.lose_node(target))
    async def a_scale():
        n = dice.choice([0, 1, 2, 4])
        res, name = (DEPLOYMENTS, "web") if kind == "Deployment" else (STATEFUL_SETS, "db")
        if kind != "Bare":
            nonlocal wanted; wanted = n
            await sure(lambda: client.patch(res, f"moves/{name}", merge_patch({"spec": {"replicas": n}})))
    async def a_rollout():
        if kind == "Deployment":
            await sure(lambda: client.patch(DEPLOYMENTS, "moves/web", merge_patch({"spec": {"template": {"metadata": {"annotations": {"x": str(dice.random())}}}}})))
    async def a_quota():
        await sure(lambda: client.create(RESOURCE_QUOTAS, {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"namespace": "moves", "name": "q"}, "spec": {"hard": {"pods": str(replicas)}}}))
    async def a_noquota(): await sure(lambda: client.delete(RESOURCE_QUOTAS, "moves/q"))
    async def a_unlabel(): await sure(lambda: client.patch(PODS.as_json, f"moves/{src['metadata']['name']}", merge_patch({"metadata": {"labels": {"scheduler.alpha.kubernetes.io/migration-id": None}}})))
    actions = [restart, two_at_once, a_cancel, a_force, a_pdb, a_nopdb, a_500, a_409, a_429, a_lose, a_drop, a_delcopy, a_delsource, a_deltarget, a_delsourcenode, a_losetarget, a_scale, a_rollout, a_unlabel]
    if "RESOURCE_QUOTAS" in globals(): actions += [a_quota, a_noquota]
    rude = {a_delcopy, a_delsource, a_deltarget, a_delsourcenode, a_losetarget, a_scale, a_rollout, a_force}
    chosen = [(dice.uniform(0, 2.2) if startup != "40s" else dice.uniform(0, 45), dice.choice(actions)) for _ in range(dice.choice([1, 2, 2, 3]))]
    chosen.sort(key=lambda x: x[0])
    gentle = not any(a in rude for _, a in chosen)
    lowest = replicas
    async def watch():
        nonlocal lowest
        while True:
            ready = [p for p in await moves_pods() if ready_since(p) and "deletionTimestamp" not in p["metadata"]]
            if len(ready) < lowest: lowest = len(ready)
            await asyncio.sleep(0.01)
    async def moves_pods():
        return [p for p in (await sure(lambda: client.list(PODS.as_json, namespace="moves"))).items]
    await begin()
    w = asyncio.create_task(watch()) if gentle and kind != "StatefulSet" else None
    t = 0
    for at, act in chosen:
        await asyncio.sleep(max(0, at - t)); t = at
        log.append((round(at, 3), act.__name__)); await act()
    await asyncio.sleep(50)
    if w: w.cancel()
    await asyncio.sleep(250)
    server.faults.clear()
    await a_noquota() if "RESOURCE_QUOTAS" in globals() else None
    await a_nopdb()
    await asyncio.sleep(900)
    problems = []
    ms = [migration_of(i) for i in (await client.list(POD_MIGRATIONS)).items]
    for m in ms:
        if not m.is_finished: problems.append(f"not over: {m.name}")
    left = await moves.leftovers()
    dying = {p['metadata']['name'] for p in (await client.list(PODS.as_json, namespace='moves')).items if 'deletionTimestamp' in p['metadata']}
    left = [x for x in left if x.split()[-1] not in dying]
    if left: problems.append(f"left {left}")
    final = await moves_pods()
    ready = [p for p in final if ready_since(p) and "deletionTimestamp" not in p["metadata"]]
    if kind == "Bare":
        if not ready and not state["deleted_by_user"] and not state["lost"]: problems.append("bare pod lost")
        if len(ready) > 1: problems.append("two bare pods")
    elif len(ready) != wanted: problems.append(f"{len(ready)} ready, wanted {wanted}")
    if w and lowest < replicas: problems.append(f"only {lowest} of {replicas} ready at some time")
    await cur["c"].aclose(); await stack.aclose()
    if problems:
        print("\nSEED", seed, kind, replicas, "startup", startup, grp, log, problems)
        for m in ms: show(m)
        for p in final: print("     ", p["metadata"]["name"], node_of(p), bool(ready_since(p)), p["metadata"].get("deletionTimestamp"), p["metadata"].get("finalizers"), p["status"].get("phase"))
    assert not problems
