"""A daemon that holds the Lease and executes, in a thread of this process."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from rescheduler.config.config_loader import load_file
from rescheduler.config.config_validation import known_strategies
from rescheduler.daemon.components import Rescheduler
from rescheduler.install.cluster_installation import install_definition
from rescheduler.kube.access import cluster_config
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport

__all__ = ["executing_elsewhere"]


@contextlib.contextmanager
def executing_elsewhere(kubeconfig: Path, config: Path, *, me: str, lease_at: str) -> Iterator[None]:
    configuration = load_file(config, known_strategies()).configuration
    leading, end = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def execute() -> None:
        async with HttpTransport(cluster_config.load_cluster_access(str(kubeconfig))) as network:
            client = Client(network)
            await install_definition(client)
            daemon = Rescheduler(client, configuration, lease_at=lease_at, me=me)
            async with daemon.watching(), daemon.executing():
                await daemon.lease.acquired()
                leading.set()
                await end.wait()

    def in_thread() -> None:
        with contextlib.closing(loop):
            loop.run_until_complete(execute())

    thread = threading.Thread(target=in_thread)
    thread.start()
    try:
        assert leading.wait(30), "the daemon did not get the lease"
        yield
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join()
