"""Which usage source is chosen."""

import pytest

from rescheduler.cluster.sources.metrics_api import MetricsApiReader
from rescheduler.cluster.sources.usage_sources import PrometheusReader, usage_reader
from rescheduler.cluster.trusted_usage import RequestsOnlyReader
from rescheduler.cluster.usage_readings import UsageReadings, effective_usage_source
from rescheduler.config.metric_settings import Prometheus
from rescheduler.config.policy import Policy, UsageSource

CONFIGURED = Prometheus(url="http://prometheus:9090")


@pytest.mark.parametrize(
    ("wanted", "prometheus", "chosen"),
    [
        pytest.param("auto", Prometheus(), "metrics", id="auto asks the metrics API"),
        pytest.param("auto", CONFIGURED, "prometheus", id="auto prefers a Prometheus that is configured"),
        pytest.param("requests", CONFIGURED, "requests", id="requests are never overruled"),
        pytest.param("metrics", CONFIGURED, "metrics", id="nor is the metrics API"),
        pytest.param("prometheus", CONFIGURED, "prometheus", id="nor is Prometheus"),
    ],
)
def test_the_source_follows_from_the_configuration(wanted, prometheus, chosen):
    policy = Policy(usage_source=UsageSource(wanted), prometheus=prometheus)
    assert effective_usage_source(policy) is UsageSource(chosen)


@pytest.mark.parametrize(
    ("wanted", "reader"),
    [("requests", RequestsOnlyReader), ("metrics", MetricsApiReader), ("prometheus", PrometheusReader)],
)
def test_each_source_has_its_reader(wanted, reader):
    policy = Policy(usage_source=UsageSource(wanted), prometheus=CONFIGURED)
    assert type(usage_reader(policy, client=None)) is reader


async def test_for_requests_there_is_nothing_to_read():
    reader = RequestsOnlyReader()
    assert await reader.read() == UsageReadings(UsageSource.REQUESTS)
    await reader.close()
