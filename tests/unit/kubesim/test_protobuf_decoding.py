"""Protobuf and JSON give the same object: pairs from a real API server (v1.37); see `captured/capture.py`."""

import base64
import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.apiserver.kind_registry import KindRegistry
from kubesim.apiserver.protobuf_decoding import UnreadableProtobufError, protobuf_message_of, read_object

PAIRS = json.loads((Path(__file__).parent / "captured" / "protobuf.json").read_text())


@pytest.mark.parametrize(
    "pair", PAIRS, ids=lambda pair: f"of {pair['json']['kind']} {pair['json']['metadata']['name']}"
)
def test_an_object_is_the_same_in_both_forms(pair):
    assert said(read_object(base64.b64decode(pair["protobuf"]))) == said(pair["json"])


def said(content):
    """Drop empty values: JSON has some empty objects and nulls that protobuf leaves out."""
    if isinstance(content, dict):
        cleaned = {name: said(value) for name, value in content.items()}
        return {name: value for name, value in cleaned.items() if value not in (None, {}, [])}
    return [said(value) for value in content] if isinstance(content, list) else content


JSON_ONLY = {"apiextensions.k8s.io", "metrics.k8s.io"}


@pytest.mark.parametrize(
    "kind",
    [kind for kind in KindRegistry() if kind.group not in JSON_ONLY],
    ids=lambda kind: f"{kind.name} of {kind.api_version}",
)
def test_every_built_in_kind_can_be_read(kind):
    assert protobuf_message_of(kind.api_version, kind.name)


def test_options_of_a_deletion_are_the_same_in_every_group():
    assert (
        protobuf_message_of("policy/v1", "DeleteOptions")
        == protobuf_message_of("v1", "DeleteOptions")
        is not None
    )


@pytest.mark.parametrize(
    ("body", "why"),
    [
        pytest.param(b'{"kind":"Pod"}', "magic number", id="JSON"),
        pytest.param(b"k8s\0\x0a\x05\x12\x03Odd", "kind 'Odd'", id="an unknown kind"),
        pytest.param(b"k8s\0\x0a\x50\x12", "in the middle of a field", id="a body that was cut off"),
        pytest.param(b"k8s\0\x80", "in the middle of a number", id="a number that was cut off"),
        pytest.param(b"k8s\0\x0b", "wire type 3", id="an encoding that is not used"),
    ],
)
def test_what_can_not_be_read_is_refused_with_the_reason(body, why):
    with pytest.raises(UnreadableProtobufError, match=why):
        read_object(body)


POD = next(base64.b64decode(pair["protobuf"]) for pair in PAIRS if pair["json"]["kind"] == "Pod")


@given(st.integers(0, len(POD) - 1), st.binary(max_size=3))
def test_damaged_bodies_are_read_or_refused_but_never_break_the_server(position, damage):
    with contextlib.suppress(UnreadableProtobufError):
        read_object(POD[:position] + damage + POD[position + len(damage) :])
