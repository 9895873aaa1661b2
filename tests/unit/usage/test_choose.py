"""Which source is asked."""

import pytest

from rescheduler.config.policy import Policy, UsageSource
from rescheduler.config.prometheus import Prometheus
from rescheduler.usage.choose import chosen_source
from rescheduler.usage.metrics_api import MetricsApi
from rescheduler.usage.prometheus import PrometheusReader
from rescheduler.usage.reading import RequestsOnly, usage_reader
from rescheduler.usage.readings import Readings

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
    assert chosen_source(policy) is UsageSource(chosen)


@pytest.mark.parametrize(
    ("wanted", "reader"),
    [("requests", RequestsOnly), ("metrics", MetricsApi), ("prometheus", PrometheusReader)],
)
def test_each_source_has_its_reader(wanted, reader):
    policy = Policy(usage_source=UsageSource(wanted), prometheus=CONFIGURED)
    assert type(usage_reader(policy, client=None)) is reader


async def test_for_requests_there_is_nothing_to_read():
    reader = RequestsOnly()
    assert await reader.read() == Readings(UsageSource.REQUESTS)
    await reader.close()
