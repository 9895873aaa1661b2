"""The endpoint that no real API server has: `/simulator`.

| request | does |
|---|---|
| `GET /simulator` | version, number of objects, open watches |
| `GET /simulator/faults` | the faults that are active, by number, and how often each has struck |
| `POST /simulator/faults` | adds a fault (the fields of `faults.Fault`, in camel case); answers its number |
| `DELETE /simulator/faults/NUMBER` | removes one |
| `DELETE /simulator/faults` | removes all |
"""

import msgspec

from rescheduler.simulator.cluster import Cluster
from rescheduler.simulator.exchange import Answer, Object, Question, answer_object
from rescheduler.simulator.failures import bad_request, method_not_allowed, no_such_path
from rescheduler.simulator.faults import Fault, Faults
from rescheduler.simulator.watching import Watches

__all__ = ["Admin"]


class Admin:
    def __init__(self, cluster: Cluster, watches: Watches, faults: Faults) -> None:
        self._cluster = cluster
        self._watches = watches
        self._faults = faults

    def answer(self, question: Question) -> Answer | None:
        """None where the path is not ours."""
        match (question.method, *question.path.strip("/").split("/")):
            case ("GET", "simulator"):
                return answer_object(200, self._overview())
            case ("GET", "simulator", "faults"):
                return answer_object(200, {"faults": self._listed()})
            case ("POST", "simulator", "faults"):
                return answer_object(201, self._add(question.body))
            case ("DELETE", "simulator", "faults"):
                self._faults.clear()
                return answer_object(200, {"faults": {}})
            case ("DELETE", "simulator", "faults", number):
                if number not in self._listed():
                    raise no_such_path()
                self._faults.remove(int(number))
                return answer_object(200, {"faults": self._listed()})
            case (_, "simulator" | "simulator/faults", *_):
                raise method_not_allowed()
        return None

    def _overview(self) -> Object:
        counts = {
            kind.resource: len(self._cluster.store.collection(kind).records) for kind in self._cluster.kinds
        }
        return {
            "resourceVersion": str(self._cluster.store.version),
            "objects": {name: number for name, number in sorted(counts.items()) if number},
            "watches": len(self._watches),
        }

    def _listed(self) -> Object:
        return {
            str(number): {**msgspec.to_builtins(fault), "struck": times}
            for number, (fault, times) in self._faults.active().items()
        }

    def _add(self, body: bytes) -> Object:
        try:
            fault = msgspec.json.decode(body, type=Fault)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise bad_request(f"not a fault: {error}") from error
        return self.add(fault)

    def add(self, fault: Fault) -> Object:
        """What happens at once has no number."""
        match fault.kind:
            case "compact":
                self._cluster.store.compact(fault.version)
                newest = self._cluster.store.version
                return {"compacted": str(newest if fault.version is None else min(fault.version, newest))}
            case "drop-watches":
                return {"dropped": self._watches.drop(fault.matches_kind)}
        return {"number": self._faults.add(fault)}
