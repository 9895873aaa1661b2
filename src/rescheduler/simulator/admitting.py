"""What happens to an object between the request and the store: defaults, webhooks, validation, quotas."""

from collections.abc import Callable

from rescheduler.simulator.admission import defaults, limit_ranges, strictness, validation
from rescheduler.simulator.admission.defaults.priority import default_class
from rescheduler.simulator.clock import Clock
from rescheduler.simulator.custom import definitions
from rescheduler.simulator.custom.merging import merge_schema
from rescheduler.simulator.custom.schema import ScalePaths
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.failures import forbidden, invalid
from rescheduler.simulator.kinds import Kind, Kinds
from rescheduler.simulator.metadata import Naming
from rescheduler.simulator.options import WriteOptions
from rescheduler.simulator.patches.schema import Node, schema_of
from rescheduler.simulator.reviewing import Reviewing
from rescheduler.simulator.store import Store

__all__ = ["AdmissionChain", "LastCheck"]

LastCheck = Callable[[Kind, Object, Object | None, str, WriteOptions], object]
"""Kind, new and old object, subresource, options. Raises `Failure` if it refuses."""


class AdmissionChain:
    def __init__(self, store: Store, kinds: Kinds, clock: Clock, naming: Naming) -> None:
        self.webhooks = Reviewing(store, kinds, naming)
        self.last_checks: list[LastCheck] = []
        """Asked when everything else has said yes: quotas, which count what is about to be stored."""
        self._store = store
        self._kinds = kinds
        self._clock = clock

    async def admit(
        self, kind: Kind, new: Object, old: Object | None, *, subresource: str, options: WriteOptions
    ) -> Object:
        if old is None and kind.custom and definitions.is_terminating(kind, self.lookup):
            why = "create not allowed while custom resource definition is terminating"
            raise forbidden(kind, new["metadata"]["name"], why)
        is_new_pod = (kind.group, kind.name) == ("", "Pod") and old is None and not subresource
        if is_new_pod:
            new = self._with_priority_class(new)
        new = self._with_defaults(kind, new, old, subresource)
        if is_new_pod and limit_ranges.fill_limits(new, self._limit_ranges(new)):
            new = self._with_defaults(kind, new, old, subresource)
        if old is not None:  # loaded objects may lack defaults; a real server fills them in on every read
            old = self._with_defaults(kind, old, old, subresource)
        new = await self._mutated(kind, new, old, subresource, options)
        faults = validation.check(kind, new, old, lookup=self.lookup, subresource=subresource)
        if faults:
            raise invalid(kind, new["metadata"]["name"], faults)
        if is_new_pod and (why := limit_ranges.objections(new, self._limit_ranges(new))):
            raise forbidden(kind, new["metadata"]["name"], why)
        await self.webhooks.validate(kind, new, old, subresource, options)
        if (kind.group, kind.name) == ("scheduling.k8s.io", "PriorityClass") and new.get("globalDefault"):
            self._expect_no_other_default(kind, new)
        for check in self.last_checks:
            check(kind, new, old, subresource, options)
        return new

    def _with_priority_class(self, pod: Object) -> Object:
        """A pod that names no class is of the one for all others, if there is one."""
        spec = pod.get("spec")
        if not isinstance(spec, dict) or spec.get("priorityClassName"):
            return pod
        name = default_class(self._all("scheduling.k8s.io/v1", "PriorityClass"))
        return {**pod, "spec": {**spec, "priorityClassName": name}} if name else pod

    def _expect_no_other_default(self, kind: Kind, new: Object) -> None:
        name, known = new["metadata"]["name"], default_class(self._all(kind.api_version, kind.name))
        if known and known != name:
            why = f"PriorityClass {known} is already marked as default. Only one default can exist"
            raise forbidden(kind, name, why)

    def _limit_ranges(self, pod: Object) -> list[Object]:
        return self._all("v1", "LimitRange", pod["metadata"]["namespace"])

    def _with_defaults(self, kind: Kind, new: Object, old: Object | None, subresource: str) -> Object:
        operation: defaults.Operation = "CREATE" if old is None else "UPDATE"
        return defaults.apply(
            kind, new, operation, now=self._clock.now(), lookup=self.lookup, subresource=subresource
        )

    async def _mutated(
        self, kind: Kind, new: Object, old: Object | None, subresource: str, options: WriteOptions
    ) -> Object:
        mutated = await self.webhooks.mutate(kind, new, old, subresource, options)
        if not mutated.changed or mutated.object is None:
            return new
        return self._with_defaults(kind, mutated.object, old, subresource)

    def warnings(self, kind: Kind, content: Object, options: WriteOptions) -> list[str]:
        """About fields that the kind does not have; refuses them if the request says so."""
        return strictness.warn_or_refuse(kind, content, options.field_validation, lookup=self.lookup)

    def printer_columns(self, kind: Kind) -> list[Object] | None:
        return definitions.printer_columns(kind, self.lookup) if kind.custom else None

    def schema(self, kind: Kind) -> Object | None:
        """What a custom resource's definition says, for those who ask which fields there are."""
        found = definitions.schema_of(kind, self.lookup) if kind.custom else None
        return found.root if found is not None else None

    def merge_schema(self, kind: Kind) -> Node:
        """How patches take objects of this kind apart."""
        root = self.schema(kind)
        return merge_schema(root) if root is not None else schema_of(kind)

    def scale_paths(self, kind: Kind) -> ScalePaths:
        found = definitions.scale_paths(kind, self.lookup) if kind.custom else None
        return found or ScalePaths(".spec.replicas", ".status.replicas")

    def _all(self, api_version: str, kind_name: str, namespace: str = "") -> list[Object]:
        kind = self._kinds.named(api_version, kind_name)
        assert kind is not None, f"no kind {kind_name} in {api_version}"
        return [record.object for record in self._store.collection(kind).ordered(namespace)]

    def lookup(self, api_version: str, kind_name: str, namespace: str, name: str) -> Object | None:
        kind = self._kinds.named(api_version, kind_name)
        record = self._store.find(kind, namespace, name) if kind is not None else None
        return record.object if record is not None else None
