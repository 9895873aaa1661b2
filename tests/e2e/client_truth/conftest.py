"""A control plane without controllers, so that only the tests change objects."""

from collections.abc import AsyncIterator, Iterator

import pytest

from rescheduler.kube.access.cluster_config import load_cluster_access
from rescheduler.kube.client import Client
from rescheduler.kube.http_transport import HttpTransport
from tests.e2e.client_truth.encodings import RecordedRequests
from tests.e2e.client_truth.rich import FEATURES
from tests.testbed import ControlPlane, Options


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    options = Options(controller_manager=False, scheduler=False, audit=False, feature_gates=FEATURES)
    with ControlPlane(tmp_path_factory.mktemp("bare"), options) as started:
        yield started


@pytest.fixture
async def recorded_requests(bare: ControlPlane) -> AsyncIterator[RecordedRequests]:
    transport = RecordedRequests(HttpTransport(load_cluster_access(bare.kubeconfig)))
    yield transport
    await transport.close()


@pytest.fixture
def truth(recorded_requests: RecordedRequests) -> Client:
    return Client(recorded_requests)
