"""What can go wrong between us and an API server. The type decides on retry; nothing else does.

    KubeError
    ├── Retriable             the same request may succeed later
    │   ├── Conflict          409: another client wrote first; read the object again, then decide
    │   ├── BudgetRefused     429: a disruption budget forbids this eviction now; `budgets` names it
    │   │   └── BudgetPending 429: the budget's status is not computed yet; `delay_s` says when to ask again
    │   ├── Overloaded        429, 503, 504: the server is overloaded; `delay_s` says when to ask again
    │   ├── Gone              410: that version or page is compacted away; list again
    │   ├── Unreachable       no (complete) answer; `may_have_happened` says whether a write may be done
    │   │   └── WatchStalled  a watch that received nothing for too long
    │   ├── InvalidResponse   the answer is not what its content type promises
    │   └── ServerError       any other 5xx
    └── Permanent             the same request gives the same answer
        ├── NotFound          404
        ├── AlreadyExists     409
        ├── Invalid           422: `causes` names the fields
        ├── InvalidName       not sent: no object can have that name, and the path would lead elsewhere
        ├── Forbidden         403, or a refusal by an admission webhook; `call` has the verb and the resource
        ├── Unauthorized      401, with freshly loaded credentials
        ├── MultipleBudgets   500: more than one budget matches the pod, so no eviction is possible
        ├── BadRequest        400 and every other 4xx
        └── MissingCapability the server is too old to move pods in (kube.server_capabilities)

Each says what failed, on which object, why, and what to do, and keeps the `call` and the server's `Status`.
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
    "Unauthorized",
    "Unreachable",
    "WatchStalled",
    "error_from_status",
]

DEFAULT_DELAY_S = 1.0
"""For a server that is overloaded and does not say for how long; client-go waits as long."""


class KubeError(Exception):
    """A call that did not do what it was asked for."""

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
        """Whether a write may be done in spite of this error: then read before writing again.

        A refusal (4xx) changed nothing. A 5xx proves nothing: a proxy may have lost the answer.
        """
        return self.call.is_write and self.code >= 500

    def advice(self) -> str:
        return self.remedy

    def __str__(self) -> str:
        code = f" ({self.code})" if self.code else ""
        doubt = (
            " It may have happened all the same: read before you repeat it." if self.may_have_happened else ""
        )
        return f"can't {self.call}: {self.why.rstrip('.')}{code}. {self.advice()}{doubt}"


class Retriable(KubeError):  # noqa: N818 - these read as what the answer was: `except Conflict`
    retriable = True


class Permanent(KubeError):  # noqa: N818
    retriable = False


class Conflict(Retriable):
    remedy = "Read the object again and decide anew."


class BudgetRefused(Retriable):
    remedy = "Try again when more of its pods are healthy, or change the budget."

    @property
    def budgets(self) -> tuple[str, ...]:
        """The budgets that refuse, as `namespace/name`."""
        names = [_BUDGET.match(cause.message) for cause in self.causes]
        return tuple(f"{self.call.namespace}/{found['name']}" for found in names if found)


class BudgetPending(BudgetRefused):
    remedy = "Ask again in a moment."

    def __init__(
        self, call: ApiCall, why: str, *, delay_s: float, code: int = 429, status: ApiStatus | None = None
    ) -> None:
        super().__init__(call, why, code=code, status=status)
        self.delay_s = delay_s


class Overloaded(Retriable):
    remedy = "Ask again later."

    def __init__(
        self, call: ApiCall, why: str, *, delay_s: float, code: int = 429, status: ApiStatus | None = None
    ) -> None:
        super().__init__(call, why, code=code, status=status)
        self.delay_s = delay_s

    def advice(self) -> str:
        return f"Ask again in {self.delay_s:g} s."


class Gone(Retriable):
    remedy = "List again from the start."


class Unreachable(Retriable):
    remedy = "Check the network, the server's address and whether it runs."

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
    remedy = "Check for a proxy in between, or a server of another kind or version."

    @property
    def may_have_happened(self) -> bool:
        return self.call.is_write


class ServerError(Retriable):
    remedy = "Look into the server's log."


class NotFound(Permanent):
    remedy = "It was removed, or never there."

    @property
    def kind_is_missing(self) -> bool:
        """The server does not serve this resource at all: a CRD that is not installed (yet)."""
        return not self.status.details.name

    def advice(self) -> str:
        if self.kind_is_missing:
            return f"The server knows no {self.call.resource}: is its CustomResourceDefinition installed?"
        return self.remedy


class AlreadyExists(Permanent):
    remedy = "Read it, or choose another name."


class Invalid(Permanent):
    remedy = "Mend the fields named."


class InvalidName(Permanent):
    remedy = "Correct the name where it is written: in the object that refers to it, or on the command line."


class Forbidden(Permanent):
    remedy = "Quota, policy or an admission webhook refuses it: change the object or the policy."

    @property
    def lacks_permission(self) -> bool:
        """True if it is for want of RBAC rights, False if admission (quota, policy, webhook) refused it."""
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
    remedy = "Leave only one PodDisruptionBudget that selects this pod."

    @property
    def may_have_happened(self) -> bool:
        return False


class BadRequest(Permanent):
    remedy = "This is a fault of the program or of the object given; please report it."


_BUDGET = re.compile(r"The disruption budget (?P<name>\S+) ")
_RBAC = re.compile(r"cannot \S+ resource ")
_WEBHOOK = re.compile(r'admission webhook "[^"]+" denied the request')
_BUDGET_CAUSE = "DisruptionBudget"

_BY_CODE: dict[int, type[KubeError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
}
_OVERLOADED = {429, 503, 504}


def error_from_status(
    call: ApiCall, code: int, status: ApiStatus, *, retry_after_s: float | None = None
) -> KubeError:
    """The error that an answer with this status code and this `Status` means."""
    why = _reason(code, status)
    if retry_after_s is None and status.details.retry_after_seconds:
        retry_after_s = float(status.details.retry_after_seconds)

    # 429 while the budget says no; 403 when its bookkeeping is full or broken. Both pass by themselves.
    if any(cause.reason == _BUDGET_CAUSE for cause in status.details.causes):
        if retry_after_s:
            return BudgetPending(call, why, delay_s=retry_after_s, code=code, status=status)
        return BudgetRefused(call, why, code=code, status=status)
    if code == 500 and "more than one PodDisruptionBudget" in status.message:
        return MultipleBudgets(call, why, code=code, status=status)
    if code == 409 and status.reason == "AlreadyExists":
        return AlreadyExists(call, why, code=code, status=status)
    # Some 500s ("ServerTimeout": an etcd leader election) come with a delay: that is patience asked for, too.
    if code in _OVERLOADED or (code >= 500 and retry_after_s):
        delay_s = DEFAULT_DELAY_S if retry_after_s is None else retry_after_s
        return Overloaded(call, why, delay_s=delay_s, code=code, status=status)
    fallback: type[KubeError] = ServerError if code >= 500 else BadRequest
    # An admission webhook that refuses may name any code, and counts as 400 if it names none.
    if fallback is BadRequest and _WEBHOOK.search(status.message):
        fallback = Forbidden
    return _BY_CODE.get(code, fallback)(call, why, code=code, status=status)


def _reason(code: int, status: ApiStatus) -> str:
    """The server's words; for a budget the cause says more than the message."""
    told = [cause.message for cause in status.details.causes if cause.reason == _BUDGET_CAUSE]
    return (
        "; ".join(told) or status.message or status.reason or f"the server answered {code} without a reason"
    )
