"""What operators should find with `kubectl get events`: Events on the ConfigMap `rescheduler-state`."""

from rescheduler.controller.events import EventWriter, Subject
from rescheduler.controller.state import NAME, StateFollowed
from rescheduler.controller.telling import Told
from rescheduler.model.status import Halt, HaltReason

__all__ = ["Announcer"]


class Announcer(Told):
    """Only whoever leads announces: `is_on` says so."""

    def __init__(self, events: EventWriter, state: StateFollowed) -> None:
        self.is_on = False
        self._events = events
        self._state = state
        self._halts: tuple[Halt, ...] = ()
        self._announced: set[tuple[HaltReason, str]] = set()

    def leads(self, leads: bool) -> None:
        self.is_on = leads
        if leads:
            self._events.tell(self._subject, "Leading", "this replica acts from now on")
            self.halted(self._halts)

    def halted(self, halts: tuple[Halt, ...]) -> None:
        self._halts = halts
        if not self.is_on:
            return
        now = {(halt.reason, halt.namespace) for halt in halts}
        for halt in halts:
            if (halt.reason, halt.namespace) not in self._announced:
                message = f"{halt.reason}: {halt.words}. Ends: {halt.ends}"
                self._events.tell(self._subject, "Halted", message, warning=True)
        for reason, namespace in sorted(self._announced - now):
            of = f" of namespace {namespace}" if namespace else ""
            self._events.tell(self._subject, "HaltEnded", f"{reason}{of} is over")
        self._announced = now

    def configuration_refused(self, why: str) -> None:
        if self.is_on:
            self._events.tell(self._subject, "ConfigurationRefused", why, warning=True)

    @property
    def _subject(self) -> Subject:
        return Subject("v1", "ConfigMap", self._state.namespace, NAME, self._state.uid)
