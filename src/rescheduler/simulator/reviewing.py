"""What the cluster's webhook configurations have to say about a request."""

from typing import Literal

from rescheduler.simulator.admission.webhooks import (
    Attempt,
    Caller,
    Endpoint,
    Mutated,
    NoReview,
    mutate,
    validate,
)
from rescheduler.simulator.exchange import Object
from rescheduler.simulator.kinds import Kind, Kinds
from rescheduler.simulator.metadata import Naming
from rescheduler.simulator.options import WriteOptions
from rescheduler.simulator.store import Record, Store

__all__ = ["Reviewing"]

Operation = Literal["CREATE", "UPDATE", "DELETE"]


class _Unreachable:
    """Without a shell that can call them, webhooks are like webhooks that are down."""

    async def call(self, endpoint: Endpoint, body: bytes, timeout_s: float) -> bytes:  # noqa: ARG002
        raise NoReview(f'Post "{endpoint.url}": no way to call webhooks was given to the simulated server')


class Reviewing:
    def __init__(self, store: Store, kinds: Kinds, naming: Naming) -> None:
        self.caller: Caller = _Unreachable()
        self._store = store
        self._kinds = kinds
        self._naming = naming

    async def mutate(
        self, kind: Kind, new: Object, old: Object | None, subresource: str, options: WriteOptions
    ) -> Mutated:
        """The object as the webhooks leave it. Raises `Failure` if one of them says no."""
        configurations = self._configurations("MutatingWebhookConfiguration")
        if not configurations:
            return Mutated(new)
        attempt = self._attempt(kind, new, old, subresource, options)
        mutated = await mutate(configurations, attempt, self.caller, self._naming.uid)
        options.warnings.extend(mutated.warnings)
        return mutated

    async def validate(
        self, kind: Kind, new: Object, old: Object | None, subresource: str, options: WriteOptions
    ) -> None:
        """Raises `Failure` if a webhook says no."""
        if configurations := self._configurations("ValidatingWebhookConfiguration"):
            attempt = self._attempt(kind, new, old, subresource, options)
            warnings = await validate(configurations, attempt, self.caller, self._naming.uid)
            options.warnings.extend(warnings)

    async def review_deletion(self, kind: Kind, record: Record, options: WriteOptions) -> None:
        """Both sorts are asked; there is nothing that could be changed."""
        for name, ask in (
            ("MutatingWebhookConfiguration", mutate),
            ("ValidatingWebhookConfiguration", validate),
        ):
            if configurations := self._configurations(name):
                attempt = self._attempt(kind, None, record.object, "", options)
                await ask(configurations, attempt, self.caller, self._naming.uid)

    def _configurations(self, name: str) -> list[Object]:
        kind = self._kinds.named("admissionregistration.k8s.io/v1", name)
        assert kind is not None, f"no kind {name}"
        return [record.object for record in self._store.collection(kind).ordered()]

    def _attempt(
        self, kind: Kind, new: Object | None, old: Object | None, subresource: str, options: WriteOptions
    ) -> Attempt:
        operation: Operation = "CREATE" if old is None else "DELETE" if new is None else "UPDATE"
        metadata = (new or old or {})["metadata"]
        namespace = metadata.get("namespace", "")
        return Attempt(
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
