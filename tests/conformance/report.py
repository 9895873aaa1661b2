"""The report docs/conformance.md: which scenario was seen where, and whether both clusters agree."""

import sys
from collections.abc import Iterator, Mapping
from itertools import groupby

from tests.conformance import recorded
from tests.conformance.scenario import Scenario
from tests.conformance.servers import Outcome
from tests.testbed.recipe import kubernetes_version

__all__ = ["report"]

_INTRODUCTION = """\
# Conformance

rescheduler's authors also wrote the simulated cluster, so a misunderstanding could hide on both sides.
Therefore every scenario below is written once (`tests/conformance/scenarios`) and runs through the same
client on two clusters: a real control plane (Kubernetes {version}) and the simulated one. A scenario
notes what it observes: responses, errors with codes and messages, Events, whole objects, and the
statuses of workloads after they have settled. The notes of the real cluster are stored in
`tests/conformance/recorded`. `make test` compares the simulator with them, `make e2e` checks that they
still match the real cluster, and `make conformance-record` records them again.

Some scenarios need only the API server, the garbage collector and the namespace controller. The others
({running} of them, marked *running cluster*) need all components: controllers, scheduler and kubelets. On
the real side, the testbed's fake kubelets behave as the scenario describes. These scenarios note only what
is certain (final states, counts, conditions), not how long it took.

{count} scenarios; {equal} of them equal on both. This page is generated: `python -m
tests.conformance report --write docs/conformance.md`.
"""

_SIMPLER = """
## What is deliberately simpler

The simulated server differs from the real one here on purpose. Scenarios don't compare the following:

- **Field ownership.** No managers are recorded until the first apply to an object; earlier fields
  belong to `before-first-apply`. Conflicts, forced changes and dropped fields are as on the
  real server.
- **Error messages** that quote whole objects (as Go prints them), or come from the JSON parser, the
  regular expressions or the expression compiler. Codes, reasons and fields are the same.
- **Validation** has no rules about fields that nothing here uses: the real server may refuse what the
  simulator accepts, but not the other way round.
- **Explicit zeros** (an empty list, a zero, `false`) that the real server treats as absent are kept
  as sent in fields that nothing here uses.
- **Repeated fields** in JSON are not detected; the last one counts.
- **Protobuf** is read in requests but never written: a client that accepts both gets JSON.
- **Every user may do everything**: there is no authentication, and RBAC objects are only stored.
- **A resize** is not checked against the free resources of the node.
- **Volumes and claims** get no protection finalizers.
- **Controllers** write no Events; the scheduler does. Jobs have no failure or success policies,
  StatefulSets no retention of claims, DaemonSets no surge; quotas count pods and their requests, limit
  ranges apply to pods only; pods are evicted from lost nodes without a rate limit. Hashes in names look
  like the real ones but differ.
- **Autoscalers** use cpu and memory as shares of requests, and scale up without a limit per step.
  Only `autoscaling/v2` is served.
- **An eviction** is one step: no client sees the moment between the budget's count and the pod's end.
- **The scheduler** provisions waiting claims when it binds the pod, and supports no resource claims, no
  scheduling groups and no in-tree cloud volumes. It scores nodes only by free resources, by pods of the
  same workload and by preferred nodes, and takes the first by name of nodes with the same score.
- **Webhooks** are not called for deletions by the garbage collector and kubelets. There are no
  admission policies, no PodSecurity and no conversion webhooks.
- **Deprecated paths** below `/watch/` are not served.

Not compared: watches that begin with all objects (`sendInitialEvents`). The simulator supports them; the
real API server needs a newer etcd than Debian's for them.
"""


def report(scenarios: list[Scenario], simulated: Mapping[str, Outcome]) -> str:
    """A table per subject, in Markdown."""
    equal = sum(simulated[found.id] == recorded.load(found.group).get(found.id) for found in scenarios)
    introduction = _INTRODUCTION.format(
        version=kubernetes_version(),
        count=len(scenarios),
        equal=equal,
        running=sum(found.components is not None for found in scenarios),
    )
    tables = groupby(scenarios, key=lambda found: found.group)
    lines = [line for group, members in tables for line in _table(group, list(members), simulated)]
    return introduction + "\n".join(lines) + "\n" + _SIMPLER


def _table(group: str, members: list[Scenario], simulated: Mapping[str, Outcome]) -> Iterator[str]:
    known = recorded.load(group)
    about = sys.modules[members[0].steps.__module__].__doc__ or ""
    mark = " *(running cluster)*" if members[0].components is not None else ""
    title = f"## {group.replace('_', ' ').capitalize()}{mark}"
    yield from ("", title, "", about.partition("\n\n")[0].strip(), "")
    yield from ("| scenario | real | simulator |", "|---|---|---|")
    for found in members:
        seen = known.get(found.id)
        agrees = "equal" if seen is not None and simulated[found.id] == seen else "**differs**"
        yield f"| {found.sentence} | {'seen' if seen is not None else 'not run'} | {agrees} |"
