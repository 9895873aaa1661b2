"""Which response is which error: the type decides on retry, and the message says what to do."""

import pytest

from rescheduler.kube import errors
from rescheduler.kube.api_resources import ApiCall
from rescheduler.kube.codecs.codec import ApiStatus, StatusCause, StatusDetails
from rescheduler.kube.errors import error_from_status

CALL = ApiCall("patch", "deployments.apps", "shop", "web")
EVICT = ApiCall("evict", "pods", "shop", "web-1")


def status(message: str = "", reason: str = "", *causes: StatusCause, retry_after: int = 0) -> ApiStatus:
    details = StatusDetails(causes=causes, retry_after_seconds=retry_after)
    return ApiStatus("Failure", message, reason, 0, details)


@pytest.mark.parametrize(
    ("code", "reported", "kind", "retriable"),
    [
        (400, status(), errors.BadRequest, False),
        (401, status(), errors.Unauthorized, False),
        (403, status(), errors.Forbidden, False),
        (404, status(), errors.NotFound, False),
        (405, status(), errors.BadRequest, False),
        (409, status(reason="Conflict"), errors.Conflict, True),
        (409, status(reason="AlreadyExists"), errors.AlreadyExists, False),
        (410, status(reason="Expired"), errors.Gone, True),
        (415, status(), errors.BadRequest, False),
        (413, status(), errors.TooLarge, False),
        (422, status(), errors.Invalid, False),
        (429, status(), errors.Overloaded, True),
        (500, status(), errors.ServerError, True),
        (500, status("etcdserver: request is too large"), errors.TooLarge, False),
        (500, status(reason="ServerTimeout", retry_after=2), errors.Overloaded, True),
        (502, status(), errors.ServerError, True),
        (503, status(), errors.Overloaded, True),
        (504, status(reason="Timeout"), errors.Overloaded, True),
    ],
)
def test_the_code_and_the_reason_decide_the_type(code, reported, kind, retriable):
    error = error_from_status(CALL, code, reported)
    assert type(error) is kind
    assert error.retriable is retriable
    assert isinstance(error, errors.Retriable) is retriable
    assert isinstance(error, errors.Permanent) is not retriable


def test_a_message_says_what_failed_on_which_object_why_and_what_to_do():
    error = error_from_status(CALL, 409, status("the object has been modified", "Conflict"))
    assert str(error) == (
        "can't patch deployments.apps shop/web: the object has been modified (409). "
        "Read the object again, then retry."
    )


# --- budgets, in the words of a real API server ---

REFUSED = StatusCause(
    "DisruptionBudget", "The disruption budget web needs 2 healthy pods and has 2 currently"
)
PENDING = StatusCause("DisruptionBudget", "The disruption budget web is still being processed by the server.")
FULL = StatusCause(
    "DisruptionBudget",
    "The disruption budget web does not allow evicting pods currently: too many pending evictions",
)
VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."


def test_a_budget_that_refuses_is_named():
    error = error_from_status(EVICT, 429, status(VIOLATES, "TooManyRequests", REFUSED))
    assert type(error) is errors.BudgetRefused
    assert error.budgets == ("shop/web",)
    assert "needs 2 healthy pods and has 2" in str(error)


def test_a_budget_not_yet_computed_says_when_to_ask_again():
    error = error_from_status(EVICT, 429, status(VIOLATES, "TooManyRequests", PENDING), retry_after_s=10)
    assert type(error) is errors.BudgetPending
    assert error.delay_s == 10
    assert error.budgets == ("shop/web",)


def test_a_budget_whose_books_are_full_refuses_too_though_it_is_called_forbidden():
    error = error_from_status(EVICT, 403, status("", "Forbidden", FULL))
    assert type(error) is errors.BudgetRefused


def test_overload_during_an_eviction_is_no_refusal_of_a_budget():
    error = error_from_status(EVICT, 429, status("too many requests", "TooManyRequests"), retry_after_s=1)
    assert type(error) is errors.Overloaded


def test_several_budgets_for_one_pod_are_final_though_the_code_is_500():
    message = (
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    )
    error = error_from_status(EVICT, 500, status(message))
    assert type(error) is errors.MultipleBudgets
    assert not error.retriable
    assert not error.may_have_happened


# --- delays ---


@pytest.mark.parametrize(
    ("header", "detail", "expected"),
    [
        pytest.param(5.0, 9, 5.0, id="the header counts first"),
        pytest.param(None, 9, 9.0, id="then the details"),
        pytest.param(None, 0, 1.0, id="then a second"),
        pytest.param(0.0, 0, 0.0, id="zero is an answer"),
    ],
)
def test_the_delay_of_an_overloaded_server(header, detail, expected):
    error = error_from_status(CALL, 429, status(retry_after=detail), retry_after_s=header)
    assert isinstance(error, errors.Overloaded)
    assert error.delay_s == expected


# --- forbidden, invalid, not found ---


def test_want_of_permission_names_the_verb_and_the_resource_to_grant():
    message = (
        'deployments.apps "web" is forbidden: User "x" cannot patch resource "deployments" in API group "a"'
    )
    error = error_from_status(CALL, 403, status(message, "Forbidden"))
    assert error.lacks_permission
    assert 'Grant the verb "patch" on "deployments" in API group "apps" for namespace shop.' in str(error)


def test_for_an_eviction_the_permission_to_grant_is_to_create_evictions():
    message = 'pods "web-1" is forbidden: User "x" cannot create resource "pods/eviction" in API group ""'
    error = error_from_status(EVICT, 403, status(message, "Forbidden"))
    assert 'Grant the verb "create" on "pods/eviction" in API group ""' in str(error)


def test_a_quota_is_no_want_of_permission():
    message = (
        'pods "web" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2'
    )
    error = error_from_status(CALL, 403, status(message, "Forbidden"))
    assert not error.lacks_permission
    assert "A quota" in str(error)


def test_a_server_that_has_just_started_refuses_writes_only_for_now():
    message = 'pods "web" is forbidden: not yet ready to handle request'
    assert isinstance(error_from_status(CALL, 403, status(message, "Forbidden")), errors.Overloaded)


def test_a_webhook_that_uses_the_words_of_a_starting_server_refuses_for_good():
    message = (
        'admission webhook "x.example.com" denied: pods "web" is forbidden: not yet ready to handle request'
    )
    error = error_from_status(CALL, 403, status(message.replace("denied", "denied the request"), "Forbidden"))
    assert isinstance(error, errors.Forbidden)


def test_a_webhook_that_names_no_code_refuses_all_the_same():
    message = 'admission webhook "policy.example.com" denied the request: not on a Sunday'
    error = error_from_status(CALL, 400, status(message, "BadRequest"))
    assert isinstance(error, errors.Forbidden)
    assert not error.lacks_permission
    assert "admission webhook" in str(error)


def test_a_webhook_that_asks_for_patience_gets_it():
    message = 'admission webhook "policy.example.com" denied the request: later'
    assert isinstance(error_from_status(CALL, 429, status(message, "TooManyRequests")), errors.Overloaded)


def test_an_invalid_object_names_its_fields():
    causes = (
        StatusCause("FieldValueRequired", "Required value", "spec.a"),
        StatusCause("FieldValueInvalid", "no", "spec.b"),
    )
    error = error_from_status(CALL, 422, status("is invalid", "Invalid", *causes))
    assert [cause.field for cause in error.causes] == ["spec.a", "spec.b"]


def test_unknown_kinds_and_missing_objects_differ():
    """Both are answered with 404."""
    kind = error_from_status(
        CALL, 404, status("the server could not find the requested resource", "NotFound")
    )
    group = error_from_status(CALL, 404, status("404 page not found"))
    named = ApiStatus(
        "Failure", 'deployments.apps "web" not found', "NotFound", 404, StatusDetails(name="web")
    )
    thing = error_from_status(CALL, 404, named)
    assert kind.kind_is_missing
    assert group.kind_is_missing
    assert not thing.kind_is_missing


# --- may it have happened? ---


@pytest.mark.parametrize(
    ("verb", "code", "expected"),
    [
        pytest.param("patch", 500, True, id="a write with a server error"),
        pytest.param("patch", 504, True, id="a write that timed out on the server"),
        pytest.param("patch", 409, False, id="a write that was refused"),
        pytest.param("patch", 429, False, id="a write that was put off"),
        pytest.param("list", 500, False, id="a read"),
    ],
)
def test_whether_a_failed_call_may_have_happened(verb, code, expected):
    error = error_from_status(ApiCall(verb, "pods", "ns", "a"), code, status())
    assert error.may_have_happened is expected


@pytest.mark.parametrize("sent", [True, False])
def test_an_unreachable_server_has_done_nothing_that_was_never_sent(sent):
    assert errors.Unreachable(CALL, "broken", sent=sent).may_have_happened is sent


def test_every_error_has_a_remedy_and_a_verdict():
    def tree(kind):
        return [kind, *(each for below in kind.__subclasses__() for each in tree(below))]

    for kind in tree(errors.KubeError):
        if kind not in (errors.KubeError, errors.Retriable, errors.Permanent):
            assert kind.remedy.endswith((".", "?"))
            assert kind.retriable in (True, False)
            assert kind.__name__ in errors.__doc__, "the drawing of the tree is complete"
