"""A pod template with rescheduler's exclusion annotation: its unschedulable pods are left alone."""

import asyncio

from rescheduler.api.well_known_names import AVOIDED_NODES_ANNOTATION
from rescheduler.cluster.codecs.record_resources import PODS
from rescheduler.kube.api_resources import DEPLOYMENTS
from tests.stories.objects import deployment, pod_spec


async def test_its_pods_that_find_no_place_are_not_removed_again_and_again(make_moves, start):
    moves = await make_moves(2)
    sandbox = moves.sandbox
    item = deployment(sandbox.namespace, "web", 2, pod_spec(sandbox.kubelet.name, cpu="1000"))
    item["metadata"]["annotations"] = {"scheduling-retries": "3"}
    item["spec"]["template"]["metadata"]["annotations"] = {AVOIDED_NODES_ANNOTATION: '["somewhere"]'}
    await moves.client.create(DEPLOYMENTS, item)
    before = await moves.until_pods(lambda pods: pods if len(pods) == 2 else None)
    await start()
    # By then each would have been removed and created again nine times, by `steerTimeout`.
    await asyncio.sleep(600)
    after = (await moves.client.list(PODS.as_json, namespace=sandbox.namespace)).items
    assert {each["metadata"]["uid"] for each in after} == {
        each["metadata"]["uid"] for each in before.values()
    }
