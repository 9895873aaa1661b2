"""The settings for Prometheus: address, queries, and invalid combinations."""

from datetime import timedelta

import pytest

from rescheduler.config.metric_settings import MetricSubject, Prometheus
from rescheduler.config.policy import Policy, UsageSource
from rescheduler.config.policy_blocks import schema_at

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


PRESSURE = {
    "name": "cpu-pressure",
    "query": "rate(node_pressure_cpu_waiting_seconds_total[5m])",
    "capacity": 1,
}


def faults_of(loading, *metrics, resources=("cpu",)):
    return loading.arg_faults(
        customMetrics=list(metrics), balanceResources=list(resources), prometheus={"url": URL}
    )


def test_custom_metrics_can_be_balanced(loading):
    other = {"name": "disk", "query": "a", "per": "pod", "capacityQuery": "b"}
    policy = loading.policy(
        customMetrics=[PRESSURE, other], balanceResources=["disk", "cpu-pressure"], prometheus={"url": URL}
    )
    assert policy.balance_resources == ("disk", "cpu-pressure")
    pressure, disk = policy.custom_metrics
    assert (pressure.per, pressure.capacity, pressure.pod_query) == (MetricSubject.NODE, 1.0, None)
    assert (disk.per, disk.capacity, disk.capacity_query) == (MetricSubject.POD, None, "b")


@pytest.mark.parametrize(
    ("capacity", "expected"), [(1, 1.0), ("500m", 0.5), ("10Gi", 10 * 2**30), ("1e9", 1e9), (0.25, 0.25)]
)
def test_a_capacity_is_a_quantity_and_is_shown_as_one(loading, capacity, expected):
    given = {"customMetrics": [PRESSURE | {"capacity": capacity}], "prometheus": {"url": URL}}
    (metric,) = loading.policy(**given).custom_metrics
    assert metric.capacity == expected
    shown = schema_at(Policy, ("customMetrics", 0, "capacity")).show(metric.capacity)
    (again,) = loading.policy(**given | {"customMetrics": [PRESSURE | {"capacity": shown}]}).custom_metrics
    assert again == metric


@pytest.mark.parametrize("capacity", [0, -1, "0", "-5m", "2Pi", "much", True, None, [], "NaN", 1e300])
def test_a_capacity_that_is_none_is_refused(loading, capacity):
    (fault,) = faults_of(loading, PRESSURE | {"capacity": capacity})
    assert fault.startswith("customMetrics[0]")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"capacity": None, "capacityQuery": None}, "customMetrics[0]"),
        ({"capacityQuery": "x"}, "customMetrics[0]"),
        ({"per": "pod", "podQuery": "x"}, "customMetrics[0]"),
        ({"per": "zone"}, 'customMetrics[0].per: "zone" is not allowed: one of node, pod'),
        ({"name": "memory"}, 'customMetrics[0].name: "memory" is not allowed: lower-case letters, digits'),
        ({"name": "hugepages-2Mi"}, 'customMetrics[0].name: "hugepages-2Mi" is not allowed'),
        ({"name": "attachable-volumes-x"}, 'customMetrics[0].name: "attachable-volumes-x" is not allowed'),
        ({"name": "a/b"}, 'customMetrics[0].name: "a/b" is not allowed'),
        ({"query": ""}, 'customMetrics[0].query: "" is not allowed: a query in PromQL'),
    ],
)
def test_a_custom_metric_that_makes_no_sense_is_refused_with_its_path(loading, change, fault):
    (found,) = faults_of(loading, PRESSURE | change)
    assert found.startswith(fault)


def test_only_metrics_that_exist_can_be_balanced(loading):
    (fault,) = faults_of(loading, PRESSURE, resources=("cpu", "cpu-presure"))
    assert fault.startswith('balanceResources[1]: "cpu-presure" is not allowed: cpu, memory')
    assert fault.endswith("or the name of one of customMetrics")


def test_names_of_metrics_are_unique(loading):
    assert faults_of(loading, PRESSURE, PRESSURE) == [
        'customMetrics[1].name: "cpu-pressure" is not allowed: each name only once'
    ]


def test_custom_metrics_need_an_address(loading):
    why = "because customMetrics are read from there"
    assert loading.arg_faults(customMetrics=[PRESSURE]) == [
        f"prometheus.url: missing: the address of Prometheus is required, {why}"
    ]
