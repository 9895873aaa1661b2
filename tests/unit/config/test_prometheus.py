"""The settings for Prometheus: address, queries, and invalid combinations."""

from datetime import timedelta

import pytest

from rescheduler.config.metric_settings import Prometheus
from rescheduler.config.policy import UsageSource

URL = "http://prometheus.monitoring:9090"


def test_by_default_there_is_none(loading):
    assert loading.policy().prometheus == Prometheus()
    assert Prometheus().url is None


def test_every_setting_arrives(loading):
    given = {
        "url": "https://prometheus.example.com/path/",
        "cpuQuery": "sum by (namespace, pod) (\n  my_cpu\n)",
        "memoryQuery": "my_memory",
        "bearerTokenFile": "/var/run/token",
        "caFile": "/etc/ca.pem",
        "timeout": "1m",
    }
    assert loading.policy(usageSource="prometheus", prometheus=given).prometheus == Prometheus(
        url="https://prometheus.example.com/path",
        cpu_query="sum by (namespace, pod) (\n  my_cpu\n)",
        memory_query="my_memory",
        bearer_token_file="/var/run/token",
        ca_file="/etc/ca.pem",
        timeout=timedelta(minutes=1),
    )


def test_the_source_prometheus_needs_an_address(loading):
    assert loading.arg_faults(usageSource="prometheus") == [
        "prometheus.url: missing: the address of Prometheus is required, because usageSource is prometheus"
    ]
    assert (
        loading.policy(usageSource="prometheus", prometheus={"url": URL}).usage_source
        is UsageSource.PROMETHEUS
    )


def test_settings_that_could_have_no_effect_are_refused(loading):
    (fault,) = loading.arg_faults(prometheus={"caFile": "/etc/ca.pem"})
    assert fault.startswith("prometheus.url: missing: the address of Prometheus is required")
    assert "have no effect without it" in fault


def test_a_faulty_address_is_reported_once(loading):
    (fault,) = loading.arg_faults(usageSource="prometheus", prometheus={"url": "prometheus:9090"})
    assert fault.startswith('prometheus.url: "prometheus:9090" is not allowed: an http or https address')


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://",
        "http://:9090",
        "ftp://host",
        "http://host:port",
        "http://host:0",
        "http://[::1",
        "http://ho st",
        "http://höst",
        "http://host\n",
        pytest.param("http://me:secret@host", id="a password that would be logged"),
        "http://host?x=1",
        "http://host#x",
        9090,
        ["http://host"],
    ],
)
def test_what_is_no_address_is_refused(loading, url):
    (fault,) = loading.arg_faults(prometheus={"url": url})
    assert fault.startswith("prometheus.url: ")
    assert "an http or https address such as" in fault


@pytest.mark.parametrize("query", ["", " \n", "a\0b", "x" * 4001, 1])
@pytest.mark.parametrize("name", ["cpuQuery", "memoryQuery"])
def test_what_can_be_no_query_is_refused(loading, name, query):
    (fault,) = loading.arg_faults(prometheus={"url": URL, name: query})
    assert fault.startswith(f"prometheus.{name}: ")
    assert "a query in PromQL of at most 4000 characters" in fault


def test_a_misspelt_setting_is_reported_with_its_path(loading):
    (fault,) = loading.arg_faults(prometheus={"url": URL, "cpuquery": "x"})
    assert (
        fault == 'prometheus.cpuquery: "x" is not allowed: there is no such setting; did you mean cpuQuery?'
    )


def test_a_token_is_not_sent_unencrypted_to_another_machine(loading):
    (fault,) = loading.arg_faults(prometheus={"url": URL, "bearerTokenFile": "/token"})
    assert fault == (
        f'prometheus.url: "{URL}" is not allowed: '
        "an https address is required, because bearerTokenFile would be sent unencrypted"
    )
    for url in ("https://prometheus.monitoring:9090", "http://127.0.0.1:9090"):
        assert loading.policy(prometheus={"url": url, "bearerTokenFile": "/token"}).prometheus.url == url
