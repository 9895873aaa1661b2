"""The same cluster gives the same plan in every process, whatever its hash seed and its number of cores."""

import hashlib
import os
import subprocess
import sys

import pytest

from tests.battery.scenarios import SCENARIOS, random_cluster
from tests.battery.test_promises import SETTINGS, planned

SOME = ("one hot node", "nodes of different sizes", "spread violated by drift", "pod groups", "StatefulSets")
SEEDS = (68, 99, 186)


def digest() -> str:
    """Return a digest of the plans for some clusters, with all settings."""
    clusters = [SCENARIOS[words]() for words in SOME] + [random_cluster(seed) for seed in SEEDS]
    plans = [planned(cluster, policy) for cluster in clusters for policy in SETTINGS.values()]
    return hashlib.sha256(repr(plans).encode()).hexdigest()


@pytest.mark.parametrize(
    "surroundings",
    [
        pytest.param({"PYTHONHASHSEED": "1"}, id="a hash seed", marks=pytest.mark.size),
        pytest.param({"PYTHONHASHSEED": "2", "OPENBLAS_NUM_THREADS": "1"}, id="another, and one thread"),
    ],
)
def test_another_process_makes_the_same_plans(surroundings):
    reported = subprocess.run(
        [sys.executable, "-c", "from tests.battery.test_repeatable import digest; print(digest())"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | surroundings,
        capture_output=True,
        text=True,
        check=True,
    )
    assert reported.stdout.strip() == digest()
