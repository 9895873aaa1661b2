"""Virtual time: nobody waits for what the clock alone decides."""

from rescheduler.simulator.virtual_time import VirtualLoop


def pytest_asyncio_loop_factories(config, item):
    return {"virtual": VirtualLoop}
