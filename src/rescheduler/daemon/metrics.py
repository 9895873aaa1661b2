"""Export what happens in the daemon as Prometheus metrics.

Label values come from fixed lists (strategies, handovers, reasons, verbs), so that the number of series does
not grow with the cluster: nodes have extremes and the mean, not one series each. Workloads have series of
their own only if `workloadMetrics` says for how many.
"""

import collections
import platform
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from rescheduler.api.daemon_status import (
    DryRunEvidence,
    FailingPod,
    Halt,
    HaltReason,
    NodeInMaintenance,
    SuspectNode,
    program_version,
)
from rescheduler.api.migration_journal import ready_seconds_lost
from rescheduler.api.podmigration import BUILT_IN_TRAITS, Handover, Migration, MigrationPhase, traits_of
from rescheduler.config.config_validation import known_strategies
from rescheduler.config.policy import Policy
from rescheduler.daemon.listeners import CheckReport, DaemonListener
from rescheduler.kube.api_resources import ApiCall

__all__ = ["Metrics"]

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series per counter, of no use

_SHORT_BUCKETS_S: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_LONG_BUCKETS_S: Final = (5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
_RESOURCES: Final = ("cpu", "memory", "pods")
_OTHER_WORKLOADS: Final = ("", "", "other")

_Workload = tuple[str, str, str]
"""Namespace, kind and name."""


class Metrics(DaemonListener):
    """The metrics of one daemon, in their own registry; `lags` and `depth` are called at every scrape."""

    def __init__(
        self,
        *,
        lags: Callable[[], Mapping[str, float]] = dict,
        depth: Callable[[], int] = lambda: 0,
    ) -> None:
        """`lags` are in seconds by kind; `depth` is the number of migrations that wait for a worker."""
        registry = self.registry = CollectorRegistry()

        def counter(name: str, words: str, *labels: str) -> Counter:
            return Counter(f"rescheduler_{name}", words, labels, registry=registry)

        def gauge(name: str, words: str, *labels: str) -> Gauge:
            return Gauge(f"rescheduler_{name}", words, labels, registry=registry)

        def histogram(
            name: str, words: str, *labels: str, buckets: Iterable[float] = _SHORT_BUCKETS_S
        ) -> Histogram:
            return Histogram(f"rescheduler_{name}", words, labels, registry=registry, buckets=tuple(buckets))

        self._checks = counter("checks", "Checks completed.", "carried_out")
        self._skipped = counter("checks_skipped", "Checks skipped although they were due.")
        self._check_time = histogram(
            "check_duration_seconds", "Duration of a check, from reading usage to the plan."
        )
        self._plan_time = histogram("plan_duration_seconds", "Duration of planning within a check.")
        self._last_check = gauge("last_check_timestamp_seconds", "Time of the last check.")
        self._proposed = counter("moves_proposed", "Moves proposed by plans.", "strategy", "handover")
        self._refused = gauge("refused_pods", "Pods that the last check refused to move.", "reason")
        self._started = counter("migrations_started", "Migrations started.", "strategy", "handover")
        self._finished = counter(
            "migrations_finished", "Migrations finished.", "strategy", "handover", "outcome"
        )
        self._failures = counter("migration_failures", "Migrations failed, by reason.", "failure")
        self._duration = histogram(
            "migration_duration_seconds",
            "Duration of migrations.",
            "handover",
            "outcome",
            buckets=_LONG_BUCKETS_S,
        )
        self._safe_evictions = histogram(
            "safe_eviction_wait_seconds",
            "Time from the first eviction by another client to the end of the move.",
            "outcome",
            buckets=_LONG_BUCKETS_S,
        )
        self._notifications = counter(
            "notifications",
            "Notifications sent, retried or dropped, by name of the receiver.",
            "sink",
            "result",
        )
        self._under_way = gauge("migrations_in_progress", "Migrations in progress.")
        self._lost = counter(
            "ready_seconds_lost", "Seconds for which moved pods had no ready successor.", "handover"
        )
        self._requests = counter("api_requests", "Requests to the API server.", "verb", "code")
        self._request_time = histogram(
            "api_request_duration_seconds", "Duration of requests to the API server.", "verb"
        )
        self._load = gauge(
            "node_load_ratio", "Load of nodes as a share of allocatable.", "resource", "statistic"
        )
        self._imbalance = gauge(
            "node_load_imbalance_ratio",
            "Difference between the highest and the lowest node load.",
            "resource",
        )
        self._failing = gauge("failing_pods", "Pods that keep failing on their node.", "state")
        self._suspects = gauge("suspect_nodes", "Nodes on which pods of several workloads fail.")
        self._maintenance = gauge("maintenance_nodes", "Nodes in maintenance.", "state")
        self._node_evictions = counter(
            "node_evictions",
            "Evictions without a move of pods on nodes that are being emptied.",
            "cause",
            "result",
        )
        self._leader = gauge("leader", "Whether this process is the leader.")
        self._halted = gauge("halted", "Whether a halt prevents moves from starting, by reason.", "reason")
        self._held = gauge("namespace_halted", "Whether a halt prevents moves in the namespace.", "namespace")
        self._dry_run = gauge("dry_run", "Whether plans are made but not executed.")
        self._dry_run_moves = gauge(
            "dry_run_moves",
            "Pods that a dry run would have moved within a week; a pod that is planned again counts once.",
        )
        self._dry_run_spread = gauge(
            "dry_run_spread_ratio",
            "Spread of node loads in a dry run, before and after the planned moves.",
            "resource",
            "state",
        )
        self._reloaded = gauge(
            "configuration_reload_success", "Whether the last change of the configuration file was accepted."
        )
        gauge("build_info", "Version of the program; always 1.", "version", "python").labels(
            program_version(), platform.python_version()
        ).set(1)
        registry.register(_ScrapedOnRead(lags, depth))
        self._workloads = _WorkloadMetrics()
        registry.register(self._workloads)
        self._running: set[str] = set()
        self.halted(())
        self.leads(False)
        self._reloaded.set(1)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self.registry)

    # -- checks

    def checked(self, check: CheckReport) -> None:
        self._checks.labels(_bool_label(check.is_carried_out)).inc()
        self._check_time.observe(check.took_s)
        self._plan_time.observe(check.planning_s)
        self._last_check.set(check.at.timestamp())
        for move in check.plan.moves:
            self._proposed.labels(_strategy_label(move.strategy), move.handover).inc()
        self._refused.clear()
        for reason, count in check.plan.refused_counts.items():
            self._refused.labels(reason).set(count)
        self._note_loads(check)
        self._note_dry_run(check.dry_run)

    def checks_skipped(self, count: int, why: str) -> None:  # noqa: ARG002 - the log has the words
        self._skipped.inc(count)

    def _note_loads(self, check: CheckReport) -> None:
        for resource in _RESOURCES:
            loads = [
                load / 100 for node in check.plan.nodes if (load := node.before.get(resource)) is not None
            ]
            if not loads:
                continue
            statistics = {"min": min(loads), "mean": sum(loads) / len(loads), "max": max(loads)}
            for name, value in statistics.items():
                self._load.labels(resource, name).set(value)
            self._imbalance.labels(resource).set(max(loads) - min(loads))

    def _note_dry_run(self, evidence: DryRunEvidence | None) -> None:
        self._dry_run_moves.set(evidence.moves if evidence is not None else 0)
        self._dry_run_spread.clear()
        for each in evidence.spreads if evidence is not None else ():
            self._dry_run_spread.labels(each.resource, "before").set(each.before / 100)
            self._dry_run_spread.labels(each.resource, "after").set(each.after / 100)

    # -- migrations

    def migration_changed(self, before: Migration | None, now: Migration | None) -> None:
        self._workloads.note(before, now)
        was = None if before is None else before.status.phase
        if now is None:
            self._running.discard(before.uid if before is not None else "")
        elif now.status.phase is MigrationPhase.IN_PROGRESS:
            self._running.add(now.uid)
        else:
            self._running.discard(now.uid)
        self._under_way.set(len(self._running))
        # Migrations that exist when this process starts were counted by an earlier process.
        if before is None or now is None or was is now.status.phase:
            return
        if now.status.phase is MigrationPhase.IN_PROGRESS and now.status.attempts <= 1:
            self._started.labels(_strategy_label(now.spec.strategy), _handover_label(now)).inc()
        if now.is_finished:
            self._note_end(now)

    def _note_end(self, now: Migration) -> None:
        status, handover, outcome = now.status, _handover_label(now), str(now.status.phase)
        self._finished.labels(_strategy_label(now.spec.strategy), handover, outcome).inc()
        if status.phase is MigrationPhase.FAILED:
            self._failures.labels(status.failure or "Unknown").inc()
        if status.started_at is not None and status.finished_at is not None:
            self._duration.labels(handover, outcome).observe(
                (status.finished_at - status.started_at).total_seconds()
            )
        if traits_of(now.spec.strategy).on_eviction and status.finished_at is not None:
            self._safe_evictions.labels(outcome).observe((status.finished_at - now.created).total_seconds())
        self._lost.labels(handover).inc(ready_seconds_lost(now))

    # -- the state of the process

    def node_evicted(self, cause: str, result: str) -> None:
        self._node_evictions.labels(cause, result).inc()

    def notified(self, sink: str, result: str) -> None:
        self._notifications.labels(sink, result).inc()

    def leads(self, leads: bool) -> None:
        self._leader.set(leads)
        self._workloads.is_on = leads

    def halted(self, halts: tuple[Halt, ...]) -> None:
        reasons = {halt.reason for halt in halts}
        for reason in HaltReason:
            if reason is not HaltReason.NAMESPACE_FAILING:  # halts one namespace: see below
                self._halted.labels(reason).set(reason in reasons)
        self._held.clear()
        for halt in halts:
            if halt.namespace:
                self._held.labels(halt.namespace).set(1)

    def configured(self, policy: Policy) -> None:
        self._reloaded.set(1)
        self._dry_run.set(policy.dry_run)
        self._workloads.most = policy.workload_metrics

    def configuration_refused(self, why: str) -> None:  # noqa: ARG002 - the log has the words
        self._reloaded.set(0)

    def requested(self, call: ApiCall, code: int, seconds: float) -> None:
        self._requests.labels(call.verb, str(code) if code else "none").inc()
        if call.verb != "watch":
            self._request_time.labels(call.verb).observe(seconds)

    # -- the state of the cluster

    def failing(self, pods: Iterable[FailingPod]) -> None:
        exhausted = [pod.tries >= pod.allowed for pod in pods]
        self._failing.labels("given-up").set(sum(exhausted))
        self._failing.labels("tried").set(len(exhausted) - sum(exhausted))

    def suspects(self, nodes: Iterable[SuspectNode]) -> None:
        self._suspects.set(len(list(nodes)))

    def maintenance(self, nodes: Iterable[NodeInMaintenance]) -> None:
        known = list(nodes)
        blocked = sum(bool(node.blocked) for node in known)
        empty = sum(not node.left and not node.blocked for node in known)
        for state, count in (("empty", empty), ("blocked", blocked)):
            self._maintenance.labels(state).set(count)
        self._maintenance.labels("emptying").set(len(known) - empty - blocked)


class _ScrapedOnRead(Collector):
    """Metrics that are computed at every scrape."""

    def __init__(self, lags: Callable[[], Mapping[str, float]], depth: Callable[[], int]) -> None:
        self._lags = lags
        self._depth = depth

    def collect(self) -> Iterable[GaugeMetricFamily]:
        lag = GaugeMetricFamily(
            "rescheduler_cache_lag_seconds",
            "Seconds since the API server last sent something about a kind.",
            labels=["kind"],
        )
        for kind, seconds in self._lags().items():
            lag.add_metric([kind], seconds)
        yield lag
        yield GaugeMetricFamily(
            "rescheduler_queue_depth", "Migrations waiting to be reconciled.", value=self._depth()
        )


class _WorkloadMetrics(Collector):
    """Finished PodMigrations by workload, computed at every scrape from those that exist.

    They are gauges and not counters: the workloads with the most migrations change, and a counter of the
    others would fall. Their values follow from the cluster, so they survive a change of leader. Only
    the leader reports them, so that sums over all replicas are right.
    """

    def __init__(self) -> None:
        self.most = 0
        self.is_on = False
        self._finished: dict[str, tuple[_Workload, str, float]] = {}
        """Workload, outcome and ready-seconds lost, by the uid of the PodMigration."""

    def note(self, before: Migration | None, now: Migration | None) -> None:
        if now is not None and now.is_finished:
            found = _workload_labels(now), str(now.status.phase), ready_seconds_lost(now)
            self._finished[now.uid] = found
        elif before is not None:
            self._finished.pop(before.uid, None)

    def collect(self) -> Iterable[GaugeMetricFamily]:
        labels = ["namespace", "kind", "workload"]
        migrations = GaugeMetricFamily(
            "rescheduler_workload_migrations",
            "Finished PodMigrations that exist, by workload.",
            labels=[*labels, "outcome"],
        )
        lost = GaugeMetricFamily(
            "rescheduler_workload_ready_seconds_lost",
            "Seconds for which pods of these PodMigrations had no ready successor, by workload.",
            labels=labels,
        )
        if self.is_on and self.most:
            counts, seconds = self._sums()
            for (workload, outcome), count in counts.items():
                migrations.add_metric([*workload, outcome], count)
            for workload, sum_s in seconds.items():
                lost.add_metric(list(workload), sum_s)
        yield migrations
        yield lost

    def _sums(self) -> tuple[Mapping[tuple[_Workload, str], int], Mapping[_Workload, float]]:
        """Return the numbers of migrations and the seconds lost; workloads after the first `most` are one."""
        ranks = collections.Counter(workload for workload, _, _ in self._finished.values())
        shown = set(sorted(ranks, key=lambda each: (-ranks[each], each))[: self.most])
        counts: dict[tuple[_Workload, str], int] = collections.defaultdict(int)
        seconds: dict[_Workload, float] = collections.defaultdict(float)
        for workload, outcome, lost_s in self._finished.values():
            label = workload if workload in shown else _OTHER_WORKLOADS
            counts[label, outcome] += 1
            seconds[label] += lost_s
        return counts, seconds


def _workload_labels(migration: Migration) -> _Workload:
    """Return namespace, kind and name; the workload of a migration that never started is not known."""
    status = migration.status
    workload = status.workload or status.owner
    if workload is not None:
        return migration.namespace, workload.kind, workload.name
    if status.handover is Handover.COPY:
        return migration.namespace, "Pod", migration.spec.pod.name
    return migration.namespace, "", "unknown"


def _strategy_label(name: str) -> str:
    """Return a bounded label: any user may create a migration with any strategy, and must not add series."""
    return name if name in {*known_strategies(), *BUILT_IN_TRAITS} else "other"


def _handover_label(migration: Migration) -> str:
    return str(migration.status.handover or migration.spec.handover)


def _bool_label(value: bool) -> str:
    return "true" if value else "false"
