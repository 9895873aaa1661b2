"""What happens to an object between the request and the store: defaults, webhooks, validation, quotas."""

from collections.abc import Callable

from rescheduler.simulator.admission import defaults, strictness, validation
from rescheduler.simulator.admission.webhooks import Attempt, Caller, Endpoint, NoReview, mutate
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
from rescheduler.simulator.store import Store

__all__ = ["AdmissionChain", "LastCheck"]

LastCheck = Callable[[Kind, Object, Object | None, str, WriteOptions], object]
"""Kind, new and old object, subresource, options. Raises `Failure` if it refuses."""


class _Unreachable:
    """Without a shell that can call them, webhooks are like webhooks that are down."""

    async def call(self, endpoint: Endpoint, body: bytes, timeout_s: float) -> bytes:  # noqa: ARG002
        raise NoReview(f'Post "{endpoint.url}": no way to call webhooks was given to the simulated server')


class AdmissionChain:
    def __init__(self, store: Store, kinds: Kinds, clock: Clock, naming: Naming) -> None:
        self.webhook_caller: Caller = _Unreachable()
        self.last_checks: list[LastCheck] = []
        """Asked when everything else has said yes: quotas, which count what is about to be stored."""
        self._store = store
        self._kinds = kinds
        self._clock = clock
        self._naming = naming

    async def admit(
        self, kind: Kind, new: Object, old: Object | None, *, subresource: str, options: WriteOptions
    ) -> Object:
        if old is None and kind.custom and definitions.is_terminating(kind, self.lookup):
            why = "create not allowed while custom resource definition is terminating"
            raise forbidden(kind, new["metadata"]["name"], why)
        new = self._with_defaults(kind, new, old, subresource)
        if old is not None:  # loaded objects may lack defaults; a real server fills them in on every read
            old = self._with_defaults(kind, old, old, subresource)
        new = await self._mutated(kind, new, old, subresource, options)
        faults = validation.check(kind, new, old, lookup=self.lookup, subresource=subresource)
        if faults:
            raise invalid(kind, new["metadata"]["name"], faults)
        for check in self.last_checks:
            check(kind, new, old, subresource, options)
        return new

    def _with_defaults(self, kind: Kind, new: Object, old: Object | None, subresource: str) -> Object:
        operation: defaults.Operation = "CREATE" if old is None else "UPDATE"
        return defaults.apply(
            kind, new, operation, now=self._clock.now(), lookup=self.lookup, subresource=subresource
        )

    async def _mutated(
        self, kind: Kind, new: Object, old: Object | None, subresource: str, options: WriteOptions
    ) -> Object:
        known = self._kinds.named("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")
        assert known is not None
        configurations = [record.object for record in self._store.collection(known).ordered()]
        if not configurations:
            return new
        metadata = new["metadata"]
        namespace = self.lookup("v1", "Namespace", "", metadata.get("namespace", "")) or {"metadata": {}}
        attempt = Attempt(
            kind=kind,
            operation="CREATE" if old is None else "UPDATE",
            object=new,
            old=old,
            name=metadata["name"],
            namespace=metadata.get("namespace", ""),
            subresource=subresource,
            namespace_labels=namespace["metadata"].get("labels") or {},
            dry_run=options.dry_run,
            field_manager=options.named_manager,
            user=options.user,
            groups=options.groups,
        )
        mutated = await mutate(configurations, attempt, self.webhook_caller, self._naming.uid)
        options.warnings.extend(mutated.warnings)
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

    def lookup(self, api_version: str, kind_name: str, namespace: str, name: str) -> Object | None:
        kind = self._kinds.named(api_version, kind_name)
        record = self._store.find(kind, namespace, name) if kind is not None else None
        return record.object if record is not None else None
