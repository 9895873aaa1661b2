"""Requests that the real API server refuses are refused with the same messages.

The expected answers in `seen/` were given by a real kube-apiserver.
"""

import re
from pathlib import Path

import pytest
import yaml

from kubesim.apiserver.status_errors import StatusError

SEEN = Path(__file__).parent / "seen"
GROUPS = (
    "metadata",
    "pods",
    "scheduling",
    "pod_updates",
    "workloads",
    "batch",
    "cluster",
    "webhooks",
    "decoding",
)


def refusals():
    for group in GROUPS:
        for case in yaml.safe_load((SEEN / f"{group}.yaml").read_text("utf-8")):
            yield pytest.param(case, id=f"{case['says']} is refused")


def said(message: str) -> str:
    """Objects are shown by the real server with Go's names of their fields: only the rest is compared."""
    return re.sub(r"(value: )[\[{].*[\]}](:|$)", r"\1…\2", message.split("\n", maxsplit=1)[0])


@pytest.mark.parametrize("case", list(refusals()))
def test_what_the_real_server_refuses(case, admit, base):
    given = base(case["base"], case["given"])
    stored = None
    if "then" in case:
        stored = admit(given)
        given = base(stored, case["then"])
    with pytest.raises(StatusError) as refused:
        admit(given, stored)
    failure = refused.value
    assert (failure.code, failure.reason) == (case["code"], case["reason"])
    if "causes" in case:
        causes = [[c["field"], c["reason"], said(c["message"])] for c in failure.details["causes"]]
        assert causes == case["causes"]
    else:
        assert failure.message == case["message"]


@pytest.mark.parametrize("kind", sorted(yaml.safe_load((SEEN / "bases.yaml").read_text("utf-8"))))
def test_what_the_refused_objects_were_made_from_is_accepted(kind, admit, base):
    assert admit(base(kind))["kind"] == kind


def test_annotations_may_not_be_larger_than_256_kib_together(admit, base):
    with pytest.raises(StatusError, match="Too long: may not be more than 262144 bytes"):
        admit(base("Pod", {"metadata.annotations": {"a": "x" * 262_144}}))


def test_a_name_may_not_be_longer_than_253_characters(admit, base):
    with pytest.raises(StatusError, match="must be no more than 253 characters"):
        admit(base("Pod", {"metadata.name": "a" * 254}))


def test_a_prefix_for_names_may_end_in_a_hyphen_but_not_contain_a_blank(admit, base):
    assert admit(base("Pod", {"metadata.generateName": "web-"}))
    with pytest.raises(StatusError, match=r"metadata\.generateName: Invalid value"):
        admit(base("Pod", {"metadata.generateName": "w b-"}))


def test_several_faults_are_reported_at_once(admit, base):
    with pytest.raises(StatusError) as refused:
        admit(base("Pod", {"spec.containers": [{}], "spec.restartPolicy": "Perhaps"}))
    assert refused.value.message == (
        'Pod "a" is invalid: [spec.containers[0].name: Required value, '
        "spec.containers[0].image: Required value, "
        'spec.restartPolicy: Unsupported value: "Perhaps": supported values: "Always", "OnFailure", "Never"]'
    )
