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

The simulated cluster is ours, so it shares our misunderstandings. Therefore every scenario below is
written once (`tests/conformance/scenarios`) and played through the same client on two clusters: a real
control plane (Kubernetes {version}) and the simulated one. A scenario notes what it sees: answers,
refusals with their codes and words, events, whole objects, and what workloads say of themselves when
they have settled. What the real one showed is kept in `tests/conformance/recorded`. `make test` holds
the simulator to it, `make e2e` checks that it is still true of the real one, `make
conformance-record` writes it down anew.

Some scenarios are about the API server as such: beside it only the garbage collector and the namespace
controller are at work. The others ({living} of them, marked *living*) play in a cluster where everybody
is: all controllers, the scheduler, and kubelets, which the testbed plays on the real side with the same
words for how pods behave. They note what is certain (final states, counts, conditions), not how long
it took.

{count} scenarios; {equal} of them equal on both. This page is generated: `python -m
tests.conformance report --write docs/conformance.md`.
"""

_SIMPLER = """
## What is deliberately simpler

The simulated server differs from the real one here on purpose, and scenarios look away:

- **Field ownership.** Nothing is recorded about an object until someone applies to it; what was there
  before belongs to `before-first-apply`. Conflicts, forced changes and dropped fields are as on the
  real server.
- **Words in refusals** that quote whole objects (as Go prints them), or come from the JSON reader, the
  regular expressions or the expression compiler. Codes, reasons and fields are the same.
- **Validation** leaves out rules about fields that matter nowhere here: what is accepted may be refused
  by the real server, but not the other way round.
- **Explicit zeros** (an empty list, a zero, `false`) that the real server treats as not said are kept
  as sent in fields that matter nowhere here.
- **Repeated fields** in JSON are not noticed; the last one counts.
- **Protobuf** is read in requests but never written: who asks for it gets JSON, if that is acceptable,
  too.
- **Everyone may do everything**: there is no authentication, and RBAC objects are only stored.
- **A resize** is not compared with the room on the node.
- **Volumes and claims** get no finalizers that protect them while they are in use.
- **Controllers** write no Events; the scheduler does. Jobs know no failure or success policies,
  StatefulSets no retention of claims, DaemonSets no surge; quotas count pods and their requests, limit
  ranges look at pods alone; pods are evicted from lost nodes without a rate limit. Hashes in names look
  like the real ones but differ.
- **Autoscalers** look at cpu and memory as shares of requests, and scale up as far as they want at
  once. Only `autoscaling/v2` is served.
- **An eviction** is one step: nobody sees the moment between the budget's count and the pod's end.
- **The scheduler** gives waiting claims their volume at the moment of binding, and knows no resource
  claims, no scheduling groups and no in-tree cloud volumes. It scores nodes by what is left, by pods of
  the same workload and by preferred nodes alone, and takes the first by name of equally good ones.
- **Webhooks** are not asked about what the garbage collector and kubelets delete. There are no
  admission policies, no PodSecurity and no conversion webhooks.
- **Old ways**: the paths below `/watch/` are not there.

Not compared: watches that begin with all there is (`sendInitialEvents`). The simulator has them; the
real API server needs a newer etcd for them than Debian's.
"""


def report(scenarios: list[Scenario], simulated: Mapping[str, Outcome]) -> str:
    """A table per subject, in Markdown."""
    equal = sum(simulated[found.id] == recorded.load(found.group).get(found.id) for found in scenarios)
    introduction = _INTRODUCTION.format(
        version=kubernetes_version(),
        count=len(scenarios),
        equal=equal,
        living=sum(found.cast is not None for found in scenarios),
    )
    tables = groupby(scenarios, key=lambda found: found.group)
    lines = [line for group, members in tables for line in _table(group, list(members), simulated)]
    return introduction + "\n".join(lines) + "\n" + _SIMPLER


def _table(group: str, members: list[Scenario], simulated: Mapping[str, Outcome]) -> Iterator[str]:
    known = recorded.load(group)
    about = sys.modules[members[0].steps.__module__].__doc__ or ""
    living = " *(living)*" if members[0].cast is not None else ""
    title = f"## {group.replace('_', ' ').capitalize()}{living}"
    yield from ("", title, "", about.partition("\n\n")[0].strip(), "")
    yield from ("| scenario | real | simulator |", "|---|---|---|")
    for found in members:
        seen = known.get(found.id)
        agrees = "equal" if seen is not None and simulated[found.id] == seen else "**differs**"
        yield f"| {found.sentence} | {'seen' if seen is not None else 'not run'} | {agrees} |"
