"""Validation of webhook configurations."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from kubesim.admission import field_errors, name_syntax
from kubesim.admission.cel_evaluation import UnsupportedExpression, compile_expression
from kubesim.admission.validation.metadata_validation import check_selector
from kubesim.apiserver.api_messages import Object
from kubesim.apiserver.status_errors import FieldError

__all__ = ["check_webhook_configuration"]

_CHOICES = {
    "failurePolicy": ("Fail", "Ignore"),
    "matchPolicy": ("Equivalent", "Exact"),
    "reinvocationPolicy": ("IfNeeded", "Never"),
}
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_REVIEW_VERSIONS = ("v1", "v1beta1")
_URL_FORM = "; desired format: https://host[/path]"


def check_webhook_configuration(new: Object, _: Object | None) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, webhook in enumerate(new.get("webhooks", ())):
        path = f"webhooks[{index}]"
        yield from _check_webhook(webhook, path)
        yield from _check_review_versions(webhook.get("admissionReviewVersions", []), path)
        name = webhook.get("name", "")
        if name and name in seen:
            yield field_errors.duplicate(f"{path}.name", name)
        seen.add(name)


def _check_webhook(webhook: Object, path: str) -> Iterator[FieldError]:
    name = webhook.get("name", "")
    if not name:
        yield field_errors.required(f"{path}.name")
    for complaint in name_syntax.fully_qualified(name) if name else ():
        yield field_errors.invalid(f"{path}.name", name, complaint)
    for index, rule in enumerate(webhook.get("rules", ())):
        yield from _check_rule(rule, f"{path}.rules[{index}]")
    for field, allowed in _CHOICES.items():
        if webhook.get(field, allowed[0]) not in allowed:
            yield field_errors.not_supported(f"{path}.{field}", webhook[field], allowed)
    if "sideEffects" not in webhook:
        yield field_errors.required(f"{path}.sideEffects", f"must specify one of {', '.join(_SIDE_EFFECTS)}")
    elif webhook["sideEffects"] not in _SIDE_EFFECTS:
        yield field_errors.not_supported(f"{path}.sideEffects", webhook["sideEffects"], _SIDE_EFFECTS)
    timeout_s = webhook.get("timeoutSeconds", 10)
    if not 1 <= timeout_s <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        yield field_errors.invalid(f"{path}.timeoutSeconds", timeout_s, detail)
    for field in ("namespaceSelector", "objectSelector"):
        yield from check_selector(webhook.get(field, {}), f"{path}.{field}")
    yield from _check_client(webhook.get("clientConfig", {}), f"{path}.clientConfig")
    yield from _check_conditions(webhook.get("matchConditions", []), f"{path}.matchConditions")


def _check_rule(rule: Object, path: str) -> Iterator[FieldError]:
    operations = rule.get("operations", [])
    if not operations:
        yield field_errors.required(f"{path}.operations")
    if len(operations) > 1 and "*" in operations:
        detail = "if '*' is present, must not specify other operations"
        yield field_errors.invalid(f"{path}.operations", operations, detail)
    for index, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            yield field_errors.not_supported(f"{path}.operations[{index}]", operation, _OPERATIONS)
    for field in ("apiGroups", "apiVersions", "resources"):
        given = rule.get(field, [])
        if not given:
            yield field_errors.required(f"{path}.{field}")
        if field != "resources" and len(given) > 1 and "*" in given:
            what = "API groups" if field == "apiGroups" else "API versions"
            detail = f"if '*' is present, must not specify other {what}"
            yield field_errors.invalid(f"{path}.{field}", given, detail)


def _check_review_versions(versions: list[str], path: str) -> Iterator[FieldError]:
    here, known = f"{path}.admissionReviewVersions", ", ".join(_REVIEW_VERSIONS)
    if not versions:
        yield field_errors.required(here, f"must specify one of {known}")
    elif not any(version in _REVIEW_VERSIONS for version in versions):
        yield field_errors.invalid(here, versions, f"must include at least one of {known}")


def _check_client(client: Object, path: str) -> Iterator[FieldError]:
    if ("url" in client) == ("service" in client):
        yield field_errors.required(path, "exactly one of url or service is required")
    elif "url" in client:
        yield from _check_url(client["url"], f"{path}.url")
    else:
        # The real server mixes the two up: it misses the namespace if there is no name.
        for field, required in (("namespace", "name"), ("name", "namespace")):
            if not client["service"].get(field):
                yield field_errors.required(f"{path}.service.{required}")
        port = client["service"].get("port", 443)
        for complaint in name_syntax.port_number(port):
            yield field_errors.invalid(f"{path}.service.port", port, f"port is not valid: {complaint}")


def _check_url(url: str, path: str) -> Iterator[FieldError]:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        yield field_errors.required(path, f"url must be a valid URL: {error}{_URL_FORM}")
        return
    if parts.scheme != "https":
        detail = f"'https' is the only allowed URL scheme{_URL_FORM}"
        yield field_errors.invalid(path, parts.scheme, detail)
    if not parts.netloc:
        yield field_errors.invalid(path, parts.netloc, f"host must be specified{_URL_FORM}")
    if "@" in parts.netloc:
        user = parts.netloc.rpartition("@")[0]
        yield field_errors.invalid(path, user, "user information is not permitted in the URL")
    if parts.fragment:
        yield field_errors.invalid(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield field_errors.invalid(path, parts.query, "query parameters are not permitted in the URL")


def _check_conditions(conditions: list[Object], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        here = f"{path}[{index}]"
        name, expression = condition.get("name", ""), condition.get("expression", "")
        if not name:
            yield field_errors.required(f"{here}.name")
        for complaint in name_syntax.qualified_name(name) if name else ():
            yield field_errors.invalid(f"{here}.name", name, complaint)
        if name in seen:
            yield field_errors.duplicate(f"{here}.name", name)
        seen.add(name)
        try:
            compile_expression(expression)
        except UnsupportedExpression as unsupported:
            yield field_errors.invalid(f"{here}.expression", expression, str(unsupported))
