"""Errors of calls to an API server. Only the type of an error decides whether a retry can help.

    KubeError
    ├── Retriable             the same request may succeed later
    │   ├── Conflict          409: another client wrote first; read the object again
    │   ├── BudgetRefused     429: a disruption budget forbids this eviction now; see `budgets`
    │   │   └── BudgetPending 429: the budget's status is not computed yet; retry after `delay_s`
    │   ├── Overloaded        429, 503, 504: the server is overloaded or starting; retry after `delay_s`
    │   │   └── EvictionDeferred 429: a webhook holds the eviction back while another component moves the pod
    │   ├── Gone              410: the version or page is compacted; list again
    │   ├── Unreachable       no complete answer; see `may_have_happened`
    │   │   └── WatchStalled  a watch without events for too long
    │   ├── InvalidResponse   the answer does not match its content type
    │   └── ServerError       any other 5xx
    └── Permanent             the same request would fail again
        ├── NotFound          404
        ├── AlreadyExists     409
        ├── Invalid           422: `causes` names the fields
        ├── InvalidName       not sent: no object can have that name
        ├── Forbidden         403, or refused by an admission webhook
        ├── Unauthorized      401, even with newly loaded credentials
        ├── MultipleBudgets   500: several budgets select the pod, so it can't be evicted
        ├── BadRequest        400 and any other 4xx
        │   └── TooLarge      413, or 500 by etcd: the object is larger than the server can store
        └── MissingCapability the server is too old (server_capabilities)

The message says which call failed, why, and what to do. Errors keep the `call` and the server's `Status`.
"""

import re
from typing import ClassVar

from rescheduler.kube.api_resources import ApiCall
from rescheduler.kube.codecs.codec import ApiStatus, StatusCause

__all__ = [
    "AlreadyExists",
    "BadRequest",
    "BudgetPending",
    "BudgetRefused",
    "Conflict",
    "EvictionDeferred",
    "Forbidden",
    "Gone",
    "Invalid",
    "InvalidName",
    "InvalidResponse",
    "KubeError",
    "MultipleBudgets",
    "NotFound",
    "Overloaded",
    "Permanent",
    "Retriable",
    "ServerError",
    "TooLarge",
    "Unauthorized",
    "Unreachable",
    "WatchStalled",
    "error_from_status",
]

DEFAULT_DELAY_S = 1.0
"""The delay if an overloaded server does not name one; the same as in client-go."""


class KubeError(Exception):
    """A call failed."""

    retriable: ClassVar[bool]
    remedy: ClassVar[str]

    def __init__(self, call: ApiCall, why: str, *, code: int = 0, status: ApiStatus | None = None) -> None:
        super().__init__(call, why)
        self.call = call
        self.why = why
        self.code = code
        """The HTTP status, or 0 if there was no answer."""
        self.status = status or ApiStatus()

    @property
    def causes(self) -> tuple[StatusCause, ...]:
        return self.status.details.causes

    @property
    def may_have_happened(self) -> bool:
        """Return whether the write may have been performed in spite of this error: then read before you
        retry.

        A refusal (4xx) changed nothing. A 5xx proves nothing: a proxy may have lost the answer.
        """
        return self.call.is_write and self.code >= 500

    def advice(self) -> str:
        return self.remedy

    def __str__(self) -> str:
        code = f" ({self.code})" if self.code else ""
        doubt = " The write may have succeeded: check before you retry." if self.may_have_happened else ""
        return f"can't {self.call}: {self.why.rstrip('.')}{code}. {self.advice()}{doubt}"


class Retriable(KubeError):  # noqa: N818 - named after the answer: `except Conflict`
    retriable = True


class Permanent(KubeError):  # noqa: N818
    retriable = False


class Conflict(Retriable):
    remedy = "Read the object again, then retry."


class BudgetRefused(Retriable):
    remedy = "Retry when more of its pods are healthy, or change the budget."

    @property
    def budgets(self) -> tuple[str, ...]:
        """Return the budgets that forbid the eviction, as `namespace/name`."""
        matches = [_BUDGET.match(cause.message) for cause in self.causes]
        return tuple(f"{self.call.namespace}/{match['name']}" for match in matches if match)


class BudgetPending(BudgetRefused):
    remedy = "Retry in a moment."

    def __init__(
        self, call: ApiCall, why: str, *, delay_s: float, code: int = 429, status: ApiStatus | None = None
    ) -> None:
        super().__init__(call, why, code=code, status=status)
        self.delay_s = delay_s


class Overloaded(Retriable):
    remedy = "Retry later."

    def __init__(
        self, call: ApiCall, why: str, *, delay_s: float, code: int = 429, status: ApiStatus | None = None
    ) -> None:
        super().__init__(call, why, code=code, status=status)
        self.delay_s = delay_s

    def advice(self) -> str:
        return f"Retry in {self.delay_s:g} s."


class EvictionDeferred(Overloaded):
    """An admission webhook holds the eviction back, because another component moves the pod first."""

    remedy = "Retry until the pod is gone."


class Gone(Retriable):
    remedy = "List again from the start."


class Unreachable(Retriable):
    remedy = "Check the network and the server's address, and whether the server is running."

    def __init__(self, call: ApiCall, why: str, *, sent: bool = True, advice: str = "") -> None:
        super().__init__(call, why)
        self._sent = sent
        self._advice = advice

    def advice(self) -> str:
        return self._advice or self.remedy

    @property
    def may_have_happened(self) -> bool:
        return self.call.is_write and self._sent


class WatchStalled(Unreachable):
    remedy = "The connection may be dead, or the server sends no bookmarks."


class InvalidResponse(Retriable):
    remedy = "Check whether a proxy changes the answer, and the version of the server."

    @property
    def may_have_happened(self) -> bool:
        return self.call.is_write


class ServerError(Retriable):
    remedy = "Check the log of the API server."


class NotFound(Permanent):
    remedy = "It does not exist, or was removed."

    @property
    def kind_is_missing(self) -> bool:
        """Return whether the server does not serve this resource at all, because its CRD is not installed
        (yet)."""
        return not self.status.details.name

    def advice(self) -> str:
        if self.kind_is_missing:
            return (
                f"The server has no resource {self.call.resource}: is its CustomResourceDefinition installed?"
            )
        return self.remedy


class AlreadyExists(Permanent):
    remedy = "Use the existing object, or choose another name."


class Invalid(Permanent):
    remedy = "Fix the named fields."


class InvalidName(Permanent):
    remedy = "Fix the name in the object that refers to it, or on the command line."


class Forbidden(Permanent):
    remedy = "A quota, a policy or an admission webhook refused the request: change the object or the policy."

    @property
    def lacks_permission(self) -> bool:
        """Return whether RBAC permissions are missing; False if admission (quota, policy, webhook) refused
        the call."""
        return bool(_RBAC.search(self.why))

    def advice(self) -> str:
        if not self.lacks_permission:
            return self.remedy
        verb, subresource = self.call.verb, self.call.subresource
        if verb == "evict":
            verb, subresource = "create", "eviction"
        plural, _, group = self.call.resource.partition(".")
        resource = f"{plural}/{subresource}" if subresource else plural
        where = f"namespace {self.call.namespace}" if self.call.namespace else "the cluster"
        return f'Grant the verb "{verb}" on "{resource}" in API group "{group}" for {where}.'


class Unauthorized(Permanent):
    remedy = "Check the credentials of the kubeconfig or the service account."


class MultipleBudgets(Permanent):
    remedy = "Keep only one PodDisruptionBudget that selects this pod."

    @property
    def may_have_happened(self) -> bool:
        return False


class BadRequest(Permanent):
    remedy = "The object is invalid, or this is a bug in rescheduler: please report it."


class TooLarge(BadRequest):
    remedy = "Remove labels, annotations or other contents that the object does not need."

    @property
    def may_have_happened(self) -> bool:
        return False


_BUDGET = re.compile(r"The disruption budget (?P<name>\S+) ")
_RBAC = re.compile(r"cannot \S+ resource ")
_WEBHOOK = re.compile(r'admission webhook "[^"]+" denied the request')
_NOT_READY = " is forbidden: not yet ready to handle request"
"""The message with which a server refuses writes (403) until its admission plugins have synced."""
_TOO_LARGE = ("etcdserver: request is too large", "trying to send message larger than max")
"""The messages with which a server reports (500) an object that is larger than etcd stores."""
_BUDGET_CAUSE = "DisruptionBudget"

_BY_CODE: dict[int, type[KubeError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    413: TooLarge,
    422: Invalid,
}
_OVERLOADED = {429, 503, 504}


def error_from_status(
    call: ApiCall, code: int, status: ApiStatus, *, retry_after_s: float | None = None
) -> KubeError:
    """Return the error for an answer with this status code and this `Status`."""
    why = _reason(code, status)
    if retry_after_s is None and status.details.retry_after_seconds:
        retry_after_s = float(status.details.retry_after_seconds)

    # 429 while the budget forbids it; 403 when its status is full or inconsistent. Both are temporary.
    if any(cause.reason == _BUDGET_CAUSE for cause in status.details.causes):
        if retry_after_s:
            return BudgetPending(call, why, delay_s=retry_after_s, code=code, status=status)
        return BudgetRefused(call, why, code=code, status=status)
    if code == 500 and "more than one PodDisruptionBudget" in status.message:
        return MultipleBudgets(call, why, code=code, status=status)
    if code == 500 and any(words in status.message for words in _TOO_LARGE):
        return TooLarge(call, why, code=code, status=status)
    if code == 409 and status.reason == "AlreadyExists":
        return AlreadyExists(call, why, code=code, status=status)
    if code == 429 and call.verb == "evict" and _WEBHOOK.search(status.message):
        return EvictionDeferred(call, why, delay_s=retry_after_s or DEFAULT_DELAY_S, code=code, status=status)
    # Some 500s ("ServerTimeout" during an etcd leader election) name a delay: they are temporary, too.
    is_starting = code == 403 and status.message.endswith(_NOT_READY) and not _WEBHOOK.search(status.message)
    if code in _OVERLOADED or is_starting or (code >= 500 and retry_after_s):
        delay_s = DEFAULT_DELAY_S if retry_after_s is None else retry_after_s
        return Overloaded(call, why, delay_s=delay_s, code=code, status=status)
    fallback: type[KubeError] = ServerError if code >= 500 else BadRequest
    # An admission webhook may refuse with any code; without one, the server answers 400.
    if fallback is BadRequest and _WEBHOOK.search(status.message):
        fallback = Forbidden
    return _BY_CODE.get(code, fallback)(call, why, code=code, status=status)


def _reason(code: int, status: ApiStatus) -> str:
    """Return the server's message; for a budget, the cause says more."""
    causes = [cause.message for cause in status.details.causes if cause.reason == _BUDGET_CAUSE]
    return (
        "; ".join(causes) or status.message or status.reason or f"the server answered {code} without a reason"
    )
