"""Our rules and the simulated scheduler's filters agree with the real kube-scheduler on random clusters.

N=20000 SEED=7 python -m pytest tests/e2e/test_scheduler_truth.py -s
"""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.scheduler_truth.comparison import Disagreement, compare
from tests.e2e.scheduler_truth.generator import random_clusters
from tests.e2e.scheduler_truth.oracle import Oracle, oracle
from tests.e2e.scheduler_truth.random_cluster import RandomCluster
from tests.e2e.scheduler_truth.shrinking import shrunk

PAIRS = int(os.environ.get("N", "2000"))
SEED = int(os.environ.get("SEED", "1"))
RULES = {
    "NodeAffinity",
    "NodeUnschedulable",
    "TaintToleration",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
}


async def test_judges_say_what_the_real_scheduler_says(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    async with oracle(tmp_path) as real:
        for cluster in random_clusters(SEED, PAIRS):
            if differ := await compare(cluster, real, seen):
                pytest.fail(await reproduction(cluster, differ, real))
    again = seen.pop("asked again", 0)
    print(f"\nseed {SEED}, {seen.total()} pairs, {again} asked again: {dict(seen.most_common())}")
    assert seen.total() == PAIRS
    if PAIRS >= 2000:
        assert not RULES - set(seen), "every rule must have refused something"
        assert 0.4 < seen["fits"] / PAIRS < 0.6, (
            "clusters in which nearly all fits, or nearly nothing, say little"
        )


async def reproduction(cluster: RandomCluster, differ: list[Disagreement], real: Oracle) -> str:
    small, doubt = await shrunk(cluster, differ[0], real)
    lines = [f"seed {SEED}: {len(differ)} disagreements in one cluster; the first, made small:"]
    lines += [f"{doubt.question.node}: {fault}" for fault in doubt.faults]
    lines += ["pod " + json.dumps(doubt.question.pod)]
    lines += ["object " + json.dumps(item) for item in small.objects]
    return "\n".join(lines)
