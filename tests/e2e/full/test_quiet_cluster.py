"""A cluster in which nothing happens for minutes is no reason to halt."""

import asyncio
import json
import time
from pathlib import Path

import pytest

from rescheduler.api.podmigration_crd import PODMIGRATION_CRD_NAME, podmigration_crd
from tests.e2e.daemon.processes import Cluster, write_config
from tests.testbed import ControlPlane
from tests.testbed.options import QUICK

pytestmark = pytest.mark.full

QUIET_S = 390.0
"""Long enough for several silences on every watch, and for a server to end each of them once."""


async def test_nothing_halts_the_daemon_while_nothing_happens(tmp_path: Path) -> None:
    with ControlPlane(tmp_path / "plane", QUICK) as plane:
        plane.kubectl("apply", "-f", "-", stdin=json.dumps(podmigration_crd()))
        plane.wait_until_served(PODMIGRATION_CRD_NAME)
        config = write_config(tmp_path / "config.json")
        cluster = Cluster(plane.kubeconfig, plane.kubeconfig, config, "default")
        replica = await cluster.replica()
        try:
            await replica.until_said("CheckDone", 3)
            until = time.monotonic() + QUIET_S
            while time.monotonic() < until:
                assert replica.process.returncode is None
                assert not replica.said("Halted")
                await asyncio.sleep(1)
            assert (await cluster.status())["halts"] == []
        finally:
            await replica.end()
