"""Negotiate the format of request and response bodies."""

from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec
import yaml

from kubesim.apiserver.api_messages import JSON, Object
from kubesim.apiserver.protobuf_decoding import PROTOBUF, UnreadableProtobufError, read_object
from kubesim.apiserver.status_errors import StatusError, bad_request, unsupported_media_type
from kubevalues.bounded_yaml import load_yaml

__all__ = [
    "ResponseForm",
    "ResponseFormat",
    "expect_type_and_metadata",
    "parse_body",
    "parse_json",
    "parse_yaml",
    "response_format",
]

YAML = "application/yaml"


class ResponseForm(Enum):
    WHOLE = ""
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"
    METADATA_LIST = "PartialObjectMetadataList"


class ResponseFormat(msgspec.Struct, frozen=True):
    form: ResponseForm = ResponseForm.WHOLE
    content_type: str = JSON
    version: str = "v1"
    """The version of `meta.k8s.io`, for tables and metadata."""


def response_format(headers: Mapping[str, str]) -> ResponseFormat:
    """Return the first format of the Accept header that is supported; raise `StatusError` if none is."""
    accept = headers.get("accept", "")
    clauses = [_clause(text) for text in accept.split(",")] if accept.strip() else [("*/*", {})]
    for media_type, parameters in clauses:
        if media_type in {JSON, "*/*"}:
            content_type = JSON
        elif media_type == YAML:
            content_type = YAML
        else:
            continue
        form = _form(parameters)
        if form is not None:
            return ResponseFormat(form, content_type, parameters.get("v", "v1"))
    offered = ", ".join((JSON, YAML, f"{JSON};stream=watch"))
    message = f"406: Not Acceptable\n\nAvailable representations: {offered}"
    raise StatusError(406, "NotAcceptable", message, details={})


def _clause(text: str) -> tuple[str, dict[str, str]]:
    media_type, *rest = text.split(";")
    pairs = (item.partition("=") for item in rest)
    return media_type.strip().lower(), {name.strip(): value.strip() for name, _, value in pairs}


def _form(parameters: Mapping[str, str]) -> ResponseForm | None:
    wanted = parameters.get("as", "")
    if not wanted:
        return ResponseForm.WHOLE
    if parameters.get("g") != "meta.k8s.io" or parameters.get("v") not in {"v1", "v1beta1"}:
        return None
    return next((form for form in ResponseForm if form.value == wanted), None)


def parse_body(headers: Mapping[str, str], body: bytes) -> Any:
    """Parse a body in JSON, or in YAML or protobuf if the header says so."""
    offered = headers.get("content-type", JSON).partition(";")[0].strip().lower() or JSON
    if offered == YAML:
        return parse_yaml(body)
    if offered == PROTOBUF:
        try:
            return read_object(body)
        except (UnreadableProtobufError, UnicodeDecodeError, RecursionError) as error:
            raise bad_request(str(error)) from error
    if offered not in {JSON, "*/*"}:
        raise unsupported_media_type((JSON, YAML, PROTOBUF))
    return parse_json(body)


def parse_json(body: bytes, refusal: str = "couldn't get version/kind; json parse error") -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"{refusal}: {error}") from error


def parse_yaml(body: bytes, refusal: str = "error converting YAML to JSON") -> Any:
    """Parse YAML; dates and keys become text, and anything else that JSON can't express is rejected."""
    try:
        return msgspec.json.decode(msgspec.json.encode(load_yaml(body)))
    except (yaml.YAMLError, msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise bad_request(f"{refusal}: {error}") from error


def expect_type_and_metadata(content: Object) -> None:
    """Check `kind`, `apiVersion` and `metadata`; null counts as absent, as everywhere in Kubernetes."""
    for field in ("apiVersion", "kind"):
        if not isinstance(content.get(field) or "", str):
            raise bad_request(f"couldn't get version/kind; json parse error: {field} is not a text")
    if not isinstance(content.get("metadata", {}), dict | None):
        raise bad_request("json parse error: metadata is not an object")


def to_yaml(content: Object) -> bytes:
    return yaml.safe_dump(content, sort_keys=False).encode()
