"""The admission chain of a request: defaults, mutating webhooks, validation, validating webhooks and quotas.

Fields that a kind does not have are dropped; the client decides whether it gets a warning or an error.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from kubesim.admission import admission_plugins, object_decoding, object_defaults
from kubesim.admission.admission_lookup import Lookup
from kubesim.admission.admission_plugins import default_class
from kubesim.admission.validation import object_validation
from kubesim.admission.webhook_admission import (
    AdmissionAttributes,
    MutationOutcome,
    WebhookCaller,
    WebhookCallFailed,
    WebhookEndpoint,
    mutate,
    validate,
)
from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.kind_registry import KindRegistry, ResourceKind
from kubesim.apiserver.object_store import ObjectStore, StoredObject
from kubesim.apiserver.server_metadata import ObjectNaming
from kubesim.apiserver.status_errors import forbidden, invalid
from kubesim.apiserver.write_options import WriteOptions
from kubesim.custom_resources import served_definitions
from kubesim.custom_resources.custom_schema import ScalePaths
from kubesim.patches.merge_schema import MergeNode, custom_merge_schema, schema_of
from kubesim.virtual_time import Clock

__all__ = ["AdmissionChain", "QuotaCheck", "WebhookDispatcher", "warn_or_refuse"]

Operation = Literal["CREATE", "UPDATE", "DELETE"]


class _Unreachable:
    """A caller that fails every call, for clusters without a connection to webhooks."""

    async def call(self, endpoint: WebhookEndpoint, body: bytes, timeout_s: float) -> bytes:  # noqa: ARG002
        raise WebhookCallFailed(f'Post "{endpoint.url}": the simulated server has no connection to webhooks')


class WebhookDispatcher:
    def __init__(self, store: ObjectStore, kinds: KindRegistry, naming: ObjectNaming) -> None:
        self.caller: WebhookCaller = _Unreachable()
        self._store = store
        self._kinds = kinds
        self._naming = naming

    async def mutate(
        self, kind: ResourceKind, new: Object, old: Object | None, subresource: str, options: WriteOptions
    ) -> MutationOutcome:
        """Return the object after all mutating webhooks; raise `StatusError` if one denies it."""
        configurations = self._configurations("MutatingWebhookConfiguration")
        if not configurations:
            return MutationOutcome(new)
        attempt = self._attempt(kind, new, old, subresource, options)
        mutated = await mutate(configurations, attempt, self.caller, self._naming.uid)
        options.warnings.extend(mutated.warnings)
        return mutated

    async def validate(
        self, kind: ResourceKind, new: Object, old: Object | None, subresource: str, options: WriteOptions
    ) -> None:
        """Call the validating webhooks; raise `StatusError` if one denies the object."""
        if configurations := self._configurations("ValidatingWebhookConfiguration"):
            attempt = self._attempt(kind, new, old, subresource, options)
            warnings = await validate(configurations, attempt, self.caller, self._naming.uid)
            options.warnings.extend(warnings)

    async def review_deletion(self, kind: ResourceKind, record: StoredObject, options: WriteOptions) -> None:
        """Call mutating and validating webhooks for a deletion, which neither can change."""
        for name, ask in (
            ("MutatingWebhookConfiguration", mutate),
            ("ValidatingWebhookConfiguration", validate),
        ):
            if configurations := self._configurations(name):
                attempt = self._attempt(kind, None, record.object, "", options)
                await ask(configurations, attempt, self.caller, self._naming.uid)

    async def review_subresource(
        self,
        kind: ResourceKind,
        subresource: str,
        content: Object,
        content_kind: ResourceKind,
        options: WriteOptions,
    ) -> None:
        """Call the validating webhooks for the creation of a subresource that has a kind of its own."""
        if configurations := self._configurations("ValidatingWebhookConfiguration"):
            attempt = self._attempt(kind, content, None, subresource, options)
            attempt = replace(attempt, content_kind=content_kind)
            warnings = await validate(configurations, attempt, self.caller, self._naming.uid)
            options.warnings.extend(warnings)

    def _configurations(self, name: str) -> list[Object]:
        kind = self._kinds.named("admissionregistration.k8s.io/v1", name)
        assert kind is not None, f"no kind {name}"
        return [record.object for record in self._store.collection(kind).ordered()]

    def _attempt(
        self,
        kind: ResourceKind,
        new: Object | None,
        old: Object | None,
        subresource: str,
        options: WriteOptions,
    ) -> AdmissionAttributes:
        operation: Operation = "CREATE" if old is None else "DELETE" if new is None else "UPDATE"
        metadata = (new or old or {})["metadata"]
        namespace = metadata.get("namespace", "")
        return AdmissionAttributes(
            kind=kind,
            operation=operation,
            object=new,
            old=old,
            name=metadata["name"],
            namespace=namespace,
            subresource=subresource,
            namespace_labels=self._labels_of(namespace),
            dry_run=options.dry_run,
            field_manager=options.named_manager,
            user=options.user,
            groups=options.groups,
        )

    def _labels_of(self, namespace: str) -> dict[str, str]:
        kind = self._kinds.named("v1", "Namespace")
        assert kind is not None
        found = self._store.find(kind, "", namespace)
        return dict(found.labels) if found is not None else {}


def warn_or_refuse(kind: ResourceKind, obj: Object, field_validation: str, *, lookup: Lookup) -> list[str]:
    """Return warnings about unknown fields, or raise a `StatusError` of code 400 if validation is strict.

    `field_validation` is the query parameter: `Ignore`, `Warn` (also if empty) or `Strict`.
    """
    if field_validation == "Ignore":
        return []
    unknown = object_decoding.unknown_fields(kind, obj)
    schema = served_definitions.schema_of(kind, lookup) if kind.custom else None
    if schema:
        unknown += schema.unknown_fields(obj)
    warnings = [f'unknown field "{path}"' for path in unknown]
    if warnings and field_validation == "Strict":
        raise object_decoding.unreadable(kind, f"strict decoding error: {', '.join(warnings)}")
    return warnings


QuotaCheck = Callable[[ResourceKind, Object, Object | None, str, WriteOptions], object]
"""A check with kind, new and old object, subresource and options; raises `StatusError` if it rejects them."""


class AdmissionChain:
    def __init__(self, store: ObjectStore, kinds: KindRegistry, clock: Clock, naming: ObjectNaming) -> None:
        self.webhooks = WebhookDispatcher(store, kinds, naming)
        self.last_checks: list[QuotaCheck] = []
        """The quota checks, which run last because they count what is about to be stored."""
        self._store = store
        self._kinds = kinds
        self._clock = clock

    async def admit(
        self, kind: ResourceKind, new: Object, old: Object | None, *, subresource: str, options: WriteOptions
    ) -> Object:
        if old is None and kind.custom and served_definitions.is_terminating(kind, self.lookup):
            why = "create not allowed while custom resource definition is terminating"
            raise forbidden(kind, new["metadata"]["name"], why)
        is_new_pod = (kind.group, kind.name) == ("", "Pod") and old is None and not subresource
        if is_new_pod:
            new = self._with_priority_class(new)
        new = self._with_defaults(kind, new, old, subresource)
        if is_new_pod and admission_plugins.fill_limits(new, self._limit_ranges(new)):
            new = self._with_defaults(kind, new, old, subresource)
        if old is not None:  # loaded objects may lack defaults; a real server fills them in on every read
            old = self._with_defaults(kind, old, old, subresource)
        new = await self._mutated(kind, new, old, subresource, options)
        faults = object_validation.validate_object(
            kind, new, old, lookup=self.lookup, subresource=subresource
        )
        if faults:
            raise invalid(kind, new["metadata"]["name"], faults)
        if is_new_pod and (why := admission_plugins.objections(new, self._limit_ranges(new))):
            raise forbidden(kind, new["metadata"]["name"], why)
        await self.webhooks.validate(kind, new, old, subresource, options)
        if (kind.group, kind.name) == ("scheduling.k8s.io", "PriorityClass") and new.get("globalDefault"):
            self._expect_no_other_default(kind, new)
        for check in self.last_checks:
            check(kind, new, old, subresource, options)
        return new

    def _with_priority_class(self, pod: Object) -> Object:
        """Return the pod with its priority class, by default the global default class if there is one."""
        spec = pod.get("spec")
        if not isinstance(spec, dict) or spec.get("priorityClassName"):
            return pod
        name = default_class(self._all("scheduling.k8s.io/v1", "PriorityClass"))
        return {**pod, "spec": {**spec, "priorityClassName": name}} if name else pod

    def _expect_no_other_default(self, kind: ResourceKind, new: Object) -> None:
        name, known = new["metadata"]["name"], default_class(self._all(kind.api_version, kind.name))
        if known and known != name:
            why = f"PriorityClass {known} is already marked as default. Only one default can exist"
            raise forbidden(kind, name, why)

    def _limit_ranges(self, pod: Object) -> list[Object]:
        return self._all("v1", "LimitRange", pod["metadata"]["namespace"])

    def _with_defaults(self, kind: ResourceKind, new: Object, old: Object | None, subresource: str) -> Object:
        operation: object_defaults.Operation = "CREATE" if old is None else "UPDATE"
        return object_defaults.apply_defaults(
            kind, new, operation, now=self._clock.now(), lookup=self.lookup, subresource=subresource
        )

    async def _mutated(
        self, kind: ResourceKind, new: Object, old: Object | None, subresource: str, options: WriteOptions
    ) -> Object:
        mutated = await self.webhooks.mutate(kind, new, old, subresource, options)
        if not mutated.changed or mutated.object is None:
            return new
        return self._with_defaults(kind, mutated.object, old, subresource)

    def warnings(self, kind: ResourceKind, content: Object, options: WriteOptions) -> list[str]:
        """Return warnings about unknown fields; raise `StatusError` if validation is strict."""
        return warn_or_refuse(kind, content, options.field_validation, lookup=self.lookup)

    def printer_columns(self, kind: ResourceKind) -> list[Object] | None:
        return served_definitions.printer_columns(kind, self.lookup) if kind.custom else None

    def schema(self, kind: ResourceKind) -> Object | None:
        """Return the schema of a custom resource."""
        found = served_definitions.schema_of(kind, self.lookup) if kind.custom else None
        return found.root if found is not None else None

    def merge_schema(self, kind: ResourceKind) -> MergeNode:
        """Return the merge keys that patches of this kind use."""
        root = self.schema(kind)
        return custom_merge_schema(root) if root is not None else schema_of(kind)

    def scale_paths(self, kind: ResourceKind) -> ScalePaths:
        found = served_definitions.scale_paths(kind, self.lookup) if kind.custom else None
        return found or ScalePaths(".spec.replicas", ".status.replicas")

    def _all(self, api_version: str, kind_name: str, namespace: str = "") -> list[Object]:
        kind = self._kinds.named(api_version, kind_name)
        assert kind is not None, f"no kind {kind_name} in {api_version}"
        return [record.object for record in self._store.collection(kind).ordered(namespace)]

    def lookup(self, api_version: str, kind_name: str, namespace: str, name: str) -> Object | None:
        kind = self._kinds.named(api_version, kind_name)
        record = self._store.find(kind, namespace, name) if kind is not None else None
        return record.object if record is not None else None
