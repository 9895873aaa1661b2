"""All pods under one ledger, looked at together: who fails, what is to be done, who has recovered."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rescheduler.config.policy import FailedPods
from rescheduler.model.nodes import NodeRecord
from rescheduler.model.pods import PodRecord
from rescheduler.model.workloads import WorkloadRecord
from rescheduler.recovery.allowance import Allowance, Malformed, allowance_of, said_by
from rescheduler.recovery.carried_over import carried_over
from rescheduler.recovery.decision import Decision, Leave, NotAllowed, Note, decide
from rescheduler.recovery.ledger import FAILED_ATTEMPTS, Ledger, Line, Try, read_ledger
from rescheduler.recovery.lines import ORIGINAL_POD, ORIGINAL_POD_NAME, is_live, lines_of, revision_of
from rescheduler.recovery.trouble import Trouble, trouble_and_next_look

__all__ = ["Case", "Examination", "Holder", "examine", "holder_of"]


@dataclass(frozen=True, slots=True)
class Holder:
    """The object that the ledger is written on: the topmost known workload, or a pod without a controller."""

    kind: str
    key: str
    uid: str
    marks: Mapping[str, str]
    formerly: str = ""
    """Uid of the pod that this one, which has no controller, was copied from: its ledger came along."""

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Case:
    """A failing pod."""

    pod: PodRecord
    trouble: Trouble
    allowance: Allowance | Malformed | None
    name: str
    """Of its line."""
    line: Line
    """What is on record of it, from pods of the same template."""
    decision: Decision

    @property
    def retries(self) -> int:
        return self.allowance.retries if isinstance(self.allowance, Allowance) else 0

    @property
    def is_on_record(self) -> bool:
        return self.line.knows(self.pod.uid)

    @property
    def revision(self) -> str:
        """Of the template that its pod was made from."""
        return revision_of(self.pod)

    def failure(self, now_s: float) -> Try:
        """What to put on record."""
        # What its controller replaced, it replaced when it failed, not when we came to know.
        at_s = self.trouble.since_s if isinstance(self.decision, Note) else now_s
        return Try(int(at_s), self.pod.node, self.pod.uid)


@dataclass(frozen=True, slots=True)
class Examination:
    holder: Holder
    ledger: Ledger
    """As written, or as carried over from an older tool."""
    is_carried_over: bool
    """Whether it is still to be written in our own form, and the older tool's to be removed."""
    lines: Mapping[str, str]
    """The name of each pod's line, by uid."""
    cases: tuple[Case, ...]
    """By the pods' keys. Also of pods that nobody asked to recover."""
    malformed: tuple[Malformed, ...]
    """Annotations that allow nothing because they make no sense, whether pods fail or not."""
    capped: tuple[Allowance, ...]
    """Annotations that ask for more than is allowed, whether pods fail or not."""
    recovered: tuple[str, ...]
    """Lines whose record can go: their pods have run well for long enough, or are no more."""
    well_on: Mapping[str, frozenset[str]]
    """Nodes on which pods run well, by template; empty where nothing fails or has failed."""
    look_again_s: float | None
    """When time alone may make a difference."""

    def with_failure(self, case: Case, now_s: float) -> Ledger:
        """The ledger with that failure on record: one more try if some is left, else the line's end."""
        revision = revision_of(case.pod)
        return self.ledger.with_failure(case.name, case.failure(now_s), case.retries, revision)


def holder_of(pod: PodRecord, chain: Sequence[WorkloadRecord]) -> Holder | None:
    """None for pods of controllers that we know nothing of."""
    if chain:
        top = chain[-1]
        return Holder(top.kind, top.key, top.uid, top.marks)
    if pod.owner is not None:
        return None
    return Holder("Pod", pod.key, pod.uid, pod.marks, formerly=pod.marks.get(ORIGINAL_POD, ""))


def examine(
    holder: Holder,
    pods: Iterable[PodRecord],
    chain_of: Callable[[PodRecord], tuple[WorkloadRecord, ...]],
    node_of: Callable[[str], NodeRecord | None],
    terms: FailedPods,
    now_s: float,
) -> Examination:
    """`pods` are all that there are of the holder, whatever their state."""
    members = sorted(pods, key=lambda pod: pod.key)
    # Whether an annotation makes sense is the same for all pods of a controller.
    first_of_each = {pod.owner.uid if pod.owner else "": pod for pod in reversed(members)}.values()
    allowances = [allowance_of(pod, chain_of(pod), terms) for pod in first_of_each]
    ledger, is_carried_over = _ledger(holder, allowances, now_s)
    # What stands on the holder counts before all else, and is told even while it has no pods.
    said = tuple(dict.fromkeys((said_by(holder.kind, holder.key, holder.marks, terms), *allowances)))
    lines = lines_of(ledger, members)
    cases: list[Case] = []
    looks: list[float] = []
    for pod in members:
        node = node_of(pod.node)
        trouble, look = trouble_and_next_look(pod, node, terms, now_s)
        if look is not None:
            looks.append(look)
        if trouble is not None:
            name = lines[pod.uid]
            line = ledger.line(name, revision_of(pod))
            allowance = allowance_of(pod, chain_of(pod), terms)
            decision = decide(pod, node, trouble, allowance, line, terms)
            if not ledger.has_room_for(name) and not isinstance(decision, NotAllowed):
                decision = Leave(f"so many replicas of {holder.key} fail that no more can be put on record")
            cases.append(Case(pod, trouble, allowance, name, line, decision))
    by_line: dict[str, list[PodRecord]] = {name: [] for name in ledger.lines}
    for pod in members:
        by_line.setdefault(lines[pod.uid], []).append(pod)
    due = {name: _well_from_s(line, by_line[name], node_of, terms) for name, line in ledger.lines.items()}
    looks += [moment for moment in due.values() if moment is not None and moment > now_s]
    return Examination(
        holder=holder,
        ledger=ledger,
        is_carried_over=is_carried_over,
        lines=lines,
        cases=tuple(cases),
        malformed=tuple(each for each in said if isinstance(each, Malformed)),
        capped=tuple(each for each in said if isinstance(each, Allowance) and each.asked_for),
        recovered=tuple(name for name, moment in due.items() if moment is not None and moment <= now_s),
        well_on=_well_on(members, node_of) if cases or ledger.lines else {},
        look_again_s=min(looks, default=None),
    )


def _ledger(
    holder: Holder, allowances: Iterable[Allowance | Malformed | None], now_s: float
) -> tuple[Ledger, bool]:  # fmt: skip
    ours = holder.marks.get(FAILED_ATTEMPTS, "")
    most = max((each.retries for each in allowances if isinstance(each, Allowance)), default=0)
    if not ours and most:
        name = holder.marks.get(ORIGINAL_POD_NAME, holder.name)
        older = carried_over(holder.kind, name, holder.marks, most)
        if older is not None:
            return older, True
    return read_ledger(ours, {holder.uid, holder.formerly} - {""}, now_s), False


def _well_from_s(
    line: Line,
    pods: Sequence[PodRecord],
    node_of: Callable[[str], NodeRecord | None],
    terms: FailedPods,
) -> float | None:
    """From when on the record of a line is of no use any more; None if that is not in sight."""
    window_s = terms.recovery_window.total_seconds()
    living = [pod for pod in pods if is_live(pod)]
    if not living:
        is_done = any(pod.phase == "Succeeded" for pod in pods)
        return 0.0 if is_done else line.last_s + window_s
    ready = [pod.condition("Ready") for pod in living if pod.is_ready and _is_ready(node_of(pod.node))]
    if len(ready) < len(living):
        return None
    return max(condition.since_s for condition in ready if condition is not None) + window_s


def _well_on(
    pods: Iterable[PodRecord], node_of: Callable[[str], NodeRecord | None]
) -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for pod in pods:
        if pod.is_ready and is_live(pod) and _is_ready(node_of(pod.node)):
            found.setdefault(revision_of(pod), set()).add(pod.node)
    return {revision: frozenset(nodes) for revision, nodes in found.items()}


def _is_ready(node: NodeRecord | None) -> bool:
    return node is not None and node.is_ready
