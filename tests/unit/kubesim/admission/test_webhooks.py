"""Which webhooks are called, in which order, and what their answers do; without any network."""

import itertools
import json
from base64 import b64encode

import pytest

from kubesim.admission.webhook_admission import (
    AdmissionAttributes,
    WebhookCallFailed,
    WebhookEndpoint,
    mutate,
)
from kubesim.apiserver.kind_registry import KindRegistry
from kubesim.apiserver.status_errors import StatusError

KINDS = KindRegistry()
PODS = KINDS.named("v1", "Pod")
POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "a", "namespace": "shop", "labels": {"app": "x"}},
    "spec": {"containers": []},
}
RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}


def webhook(name="hook.example.com", **fields):
    return {
        "name": name,
        "clientConfig": {"url": f"https://{name}/mutate"},
        "rules": [RULE],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **fields,
    }


def configuration(*webhooks, name="c"):
    return {"metadata": {"name": name}, "webhooks": list(webhooks)}


def allowed(*operations, **response):
    patch = {"patch": b64encode(json.dumps(operations).encode()).decode(), "patchType": "JSONPatch"}
    return {"allowed": True, **(patch if operations else {}), **response}


def adding(label):
    return allowed({"op": "add", "path": f"/metadata/labels/{label}", "value": "1"})


class Scripted:
    """Answers by the host's name, and keeps what it was asked."""

    def __init__(self, **answers):
        self.answers = {name.replace("_", "."): answer for name, answer in answers.items()}
        self.asked = []

    async def call(self, endpoint, body, timeout_s):
        review = json.loads(body)
        host = endpoint.url.split("/")[2]
        self.asked.append((host, review["request"], timeout_s))
        answer = self.answers.get(host, allowed())
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, bytes):
            return answer
        response = {"uid": review["request"]["uid"], **answer}
        return json.dumps(
            {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}
        ).encode()

    @property
    def hosts(self):
        return [host for host, _, _ in self.asked]


async def run(configurations, caller, kind=PODS, obj=POD, operation="CREATE", **more):
    attempt = AdmissionAttributes(kind, operation, obj, name="a", namespace="shop", **more)
    counter = itertools.count(1)
    return await mutate(configurations, attempt, caller, lambda: f"uid-{next(counter)}")


@pytest.mark.parametrize(
    ("fields", "called"),
    [
        pytest.param({}, True, id="rules that fit"),
        pytest.param({"rules": []}, False, id="no rules"),
        pytest.param({"rules": [{**RULE, "operations": ["*"]}]}, True, id="all operations"),
        pytest.param({"rules": [{**RULE, "operations": ["UPDATE"]}]}, False, id="another operation"),
        pytest.param({"rules": [{**RULE, "apiGroups": ["apps"]}]}, False, id="another group"),
        pytest.param({"rules": [{**RULE, "apiVersions": ["v2"]}]}, False, id="another version"),
        pytest.param({"rules": [{**RULE, "resources": ["*"]}]}, True, id="all resources"),
        pytest.param({"rules": [{**RULE, "resources": ["pods/*"]}]}, True, id="pods and their subresources"),
        pytest.param({"rules": [{**RULE, "resources": ["pods/status"]}]}, False, id="only a subresource"),
        pytest.param({"rules": [{**RULE, "scope": "Namespaced"}]}, True, id="objects in namespaces"),
        pytest.param({"rules": [{**RULE, "scope": "Cluster"}]}, False, id="objects outside of namespaces"),
        pytest.param({"objectSelector": {"matchLabels": {"app": "x"}}}, True, id="a label the object has"),
        pytest.param(
            {"objectSelector": {"matchLabels": {"app": "y"}}}, False, id="a label the object has not"
        ),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"team": "t"}}}, True, id="a label its namespace has"
        ),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"team": "u"}}}, False, id="a label its namespace has not"
        ),
        pytest.param(
            {"matchConditions": [{"name": "a", "expression": "object.metadata.name == 'a'"}]},
            True,
            id="a condition that holds",
        ),
        pytest.param(
            {
                "matchConditions": [
                    {
                        "name": "a",
                        "expression": "has(object.metadata.ownerReferences) && "
                        "object.metadata.ownerReferences.exists(o, o.controller)",
                    }
                ]
            },
            False,
            id="a condition that does not hold",
        ),
        pytest.param(
            {
                "matchConditions": [
                    {"name": "a", "expression": "request.operation == 'CREATE'"},
                    {"name": "b", "expression": "false"},
                ]
            },
            False,
            id="one of two conditions",
        ),
        pytest.param(
            {
                "failurePolicy": "Ignore",
                "matchConditions": [{"name": "a", "expression": "object.spec.x == 1"}],
            },
            False,
            id="a condition without a value, which is ignored",
        ),
    ],
)
async def test_a_webhook_is_called_by(fields, called):
    caller = Scripted()
    await run([configuration(webhook(**fields))], caller, namespace_labels={"team": "t"})
    assert bool(caller.asked) is called


async def test_a_condition_without_a_value_stops_the_request_unless_it_is_ignored():
    broken = webhook(matchConditions=[{"name": "a", "expression": "object.spec.x == 1"}])
    with pytest.raises(StatusError, match=r'failed calling webhook "hook\.example\.com": match conditions'):
        await run([configuration(broken)], Scripted())


async def test_webhook_configurations_are_never_shown_to_webhooks():
    kind = KINDS.named("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    caller = Scripted()
    await run([configuration(webhook(rules=[everything]))], caller, kind=kind)
    assert caller.asked == []


async def test_webhooks_are_called_in_order():
    """The order is that of their configurations' names, and each sees earlier changes."""
    caller = Scripted(a_example_com=adding("first"), b_example_com=adding("second"))
    mutated = await run(
        [
            configuration(webhook("b.example.com"), name="z"),
            configuration(webhook("a.example.com"), name="y"),
        ],
        caller,
    )
    assert caller.hosts == ["a.example.com", "b.example.com"]
    assert caller.asked[1][1]["object"]["metadata"]["labels"] == {"app": "x", "first": "1"}
    assert mutated.object["metadata"]["labels"] == {"app": "x", "first": "1", "second": "1"}
    assert mutated.changed
    assert POD["metadata"]["labels"] == {"app": "x"}


async def test_the_request_says_what_is_going_on():
    caller = Scripted()
    rule = {**RULE, "operations": ["UPDATE"]}
    old = {"metadata": {"name": "a"}}
    await run(
        [configuration(webhook(rules=[rule], timeoutSeconds=3))],
        caller,
        operation="UPDATE",
        old=old,
        dry_run=True,
    )
    ((_, request, timeout_s),) = caller.asked
    assert timeout_s == 3
    assert request == {
        "uid": "uid-1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
        "requestResource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "UPDATE",
        "name": "a",
        "namespace": "shop",
        "userInfo": {"username": "system:admin", "groups": ["system:masters", "system:authenticated"]},
        "object": POD,
        "oldObject": {"kind": "Pod", "apiVersion": "v1", **old},
        "dryRun": True,
        "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"]},
    }


async def test_an_answer_without_a_patch_changes_nothing():
    mutated = await run([configuration(webhook())], Scripted(hook_example_com=allowed(warnings=["careful"])))
    assert (mutated.object, mutated.changed, mutated.warnings) == (POD, False, ("careful",))


async def test_a_webhook_that_wants_to_is_called_again_after_others_changed_the_object():
    caller = Scripted(a_example_com=adding("a"), b_example_com=adding("b"))
    await run(
        [configuration(webhook("a.example.com", reinvocationPolicy="IfNeeded"), webhook("b.example.com"))],
        caller,
    )
    assert caller.hosts == ["a.example.com", "b.example.com", "a.example.com"]


async def test_but_not_if_nothing_changed_after_it():
    caller = Scripted(a_example_com=adding("a"))
    await run(
        [configuration(webhook("a.example.com", reinvocationPolicy="IfNeeded"), webhook("b.example.com"))],
        caller,
    )
    assert caller.hosts == ["a.example.com", "b.example.com"]


@pytest.mark.parametrize(
    ("response", "code", "message"),
    [
        pytest.param(
            {"allowed": False, "status": {"message": "not today", "code": 403, "reason": "Forbidden"}},
            403,
            'admission webhook "hook.example.com" denied the request: not today',
            id="with a message",
        ),
        pytest.param(
            {"allowed": False, "status": {"reason": "Busy"}},
            400,
            'admission webhook "hook.example.com" denied the request: Busy',
            id="with a reason",
        ),
        pytest.param(
            {"allowed": False},
            400,
            'admission webhook "hook.example.com" denied the request without explanation',
            id="without a word",
        ),
        pytest.param(
            {"allowed": False, "status": {"code": 200}},
            400,
            'admission webhook "hook.example.com" denied the request without explanation',
            id="with a code of success",
        ),
    ],
)
@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
async def test_a_denial_is_passed_on_whatever_the_policy(response, code, message, policy):
    with pytest.raises(StatusError) as refused:
        await run([configuration(webhook(failurePolicy=policy))], Scripted(hook_example_com=response))
    assert (refused.value.code, refused.value.message) == (code, message)


GARBAGE = [
    pytest.param(
        WebhookCallFailed("failed to call webhook: gone"), "failed to call webhook: gone", id="no answer"
    ),
    pytest.param(b"<html>", "failed to call webhook: couldn't read the answer", id="a page"),
    pytest.param(b'{"response": 3}', "failed to call webhook: couldn't read the answer", id="a number"),
    pytest.param(
        b"{}", "received invalid webhook response: webhook response was absent", id="an empty object"
    ),
    pytest.param(
        {"uid": "x", "allowed": True},
        'expected response.uid="uid-1", got "x"',
        id="an answer to another question",
    ),
    pytest.param(
        {"allowed": True, "patch": "W10="},
        "webhook returned response.patch but not response.patchType",
        id="a patch of no type",
    ),
    pytest.param(
        {"allowed": True, "patch": "W10=", "patchType": "Merge"},
        'unsupported patch type "Merge"',
        id="a patch of an unknown type",
    ),
    pytest.param(
        {"allowed": True, "patch": "%", "patchType": "JSONPatch"},
        "received undecodable patch",
        id="a patch that is no patch",
    ),
]


@pytest.mark.parametrize(("answer", "reported"), GARBAGE)
async def test_a_failure_stops_the_request(answer, reported):
    with pytest.raises(StatusError) as refused:
        await run([configuration(webhook(failurePolicy="Fail"))], Scripted(hook_example_com=answer))
    assert refused.value.code == 500
    assert refused.value.message.startswith(
        'Internal error occurred: failed calling webhook "hook.example.com": '
    )
    assert reported in refused.value.message


@pytest.mark.parametrize(("answer", "reported"), GARBAGE)
async def test_a_failure_is_passed_over_if_it_is_ignored(answer, reported):
    caller = Scripted(hook_example_com=answer, later_example_com=adding("b"))
    hooks = configuration(webhook(failurePolicy="Ignore"), webhook("later.example.com"))
    assert (await run([hooks], caller)).object["metadata"]["labels"] == {"app": "x", "b": "1"}


async def test_a_patch_that_does_not_fit_stops_the_request():
    answer = allowed({"op": "remove", "path": "/spec/nothing"})
    with pytest.raises(StatusError, match="Internal error occurred"):
        await run([configuration(webhook(failurePolicy="Ignore"))], Scripted(hook_example_com=answer))


async def test_a_patch_that_leaves_no_pod_is_the_webhooks_fault_not_the_clients():
    answer = allowed({"op": "add", "path": "/spec/nodeName", "value": 3})
    with pytest.raises(
        StatusError, match=r"cannot unmarshal number into Go struct field PodSpec\.spec\.nodeName"
    ) as refused:
        await run([configuration(webhook())], Scripted(hook_example_com=answer))
    assert refused.value.code == 500


async def test_a_dry_run_calls_no_webhook_with_side_effects():
    with pytest.raises(StatusError, match=r'admission webhook "hook\.example\.com" does not support dry run'):
        await run([configuration(webhook(sideEffects="Some"))], Scripted(), dry_run=True)


async def test_what_is_deleted_can_not_be_changed():
    rule = {**RULE, "operations": ["DELETE"]}
    with pytest.raises(
        StatusError, match="attempted to modify the object, which is not supported for this operation"
    ):
        await run(
            [configuration(webhook(rules=[rule]))],
            Scripted(hook_example_com=adding("a")),
            obj=None,
            old=POD,
            operation="DELETE",
        )


def test_a_service_is_called_by_its_name_in_the_cluster():
    client = {
        "service": {"namespace": "ns", "name": "svc", "path": "/mutate", "port": 8443},
        "caBundle": "Y2E=",
    }
    assert WebhookEndpoint.of(client) == WebhookEndpoint("https://svc.ns.svc:8443/mutate", "ns/svc", b"ca")
