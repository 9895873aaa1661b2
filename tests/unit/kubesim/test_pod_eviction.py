"""Eviction: what a disruption budget says, in the real server's words."""

import json

import pytest

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."


async def run_pod(api, name="p", *, phase="Running", ready=True):
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    created = await api.post(PODS, {"metadata": {"name": name, "labels": {"app": "x"}}, "spec": spec})
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    await api.patch(f"{PODS}/{name}/status", {"status": {"phase": phase, "conditions": conditions}})
    return created.body


async def budget(api, name="b", *, allowed=0, observed=True, spec=None, **status):
    selector = {"selector": {"matchLabels": {"app": "x"}}, "minAvailable": 1}
    await api.post(BUDGETS, {"metadata": {"name": name}, "spec": {**selector, **(spec or {})}})
    counts = {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
    if observed:
        counts["observedGeneration"] = 1
    reply = await api.patch(f"{BUDGETS}/{name}/status", {"status": {**counts, **status}})
    assert reply.status == 200, reply.body


async def evict(api, name="p", query="", **options):
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    if options:
        body["deleteOptions"] = options
    return await api.post(f"{PODS}/{name}/eviction{query}", body)


async def is_ending(api, name="p"):
    reply = await api.get(f"{PODS}/{name}")
    return reply.status == 404 or "deletionTimestamp" in reply.body["metadata"]


class TestWithoutABudget:
    async def test_is_a_deletion_that_says_why(self, api):
        await run_pod(api)
        assert (await evict(api)).status == 201
        pod = (await api.get(PODS + "/p")).body
        assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
        target = next(c for c in pod["status"]["conditions"] if c["type"] == "DisruptionTarget")
        assert (target["reason"], target["message"]) == ("EvictionByEvictionAPI", "Eviction API: evicting")

    async def test_of_no_pod_finds_none(self, api):
        assert (await evict(api, "nobody")).status == 404

    async def test_of_another_pod_of_the_same_name_is_a_conflict(self, api):
        await run_pod(api)
        reply = await evict(api, preconditions={"uid": "other"})
        assert reply.status == 409
        assert "the UID in the precondition (other) does not match the UID in record" in reply.message
        assert not await is_ending(api)

    async def test_with_the_right_uid_and_a_grace_period(self, api):
        pod = await run_pod(api)
        await evict(api, preconditions={"uid": pod["metadata"]["uid"]}, gracePeriodSeconds=7)
        assert (await api.get(PODS + "/p")).body["metadata"]["deletionGracePeriodSeconds"] == 7

    async def test_names_must_agree(self, api):
        await run_pod(api)
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "q"}}
        reply = await api.post(PODS + "/p/eviction", body)
        assert (reply.status, reply.message) == (400, "name in URL does not match name in Eviction object")


class TestWithABudget:
    async def test_that_is_spent_is_refused_without_a_time_to_wait(self, api):
        await run_pod(api)
        await budget(api, allowed=0)
        reply = await evict(api)
        assert (reply.status, reply.message) == (429, VIOLATES)
        assert reply.body["details"]["causes"] == [
            {
                "reason": "DisruptionBudget",
                "message": "The disruption budget b needs 1 healthy pods and has 1 currently",
            }
        ]
        assert "retry-after" not in reply.headers
        assert not await is_ending(api)

    async def test_that_allows_one_is_spent_by_it(self, api):
        await run_pod(api, "p")
        await run_pod(api, "q")
        await budget(api, allowed=1, currentHealthy=2)
        assert (await evict(api, "p")).status == 201
        status = (await api.get(BUDGETS + "/b")).body["status"]
        assert status["disruptionsAllowed"] == 0
        assert status["disruptedPods"] == {"p": "2026-01-01T00:00:00Z"}
        assert (await evict(api, "q")).status == 429

    async def test_that_is_not_computed_yet_asks_to_come_back(self, api):
        await run_pod(api)
        await budget(api, observed=False)
        reply = await evict(api)
        assert reply.status == 429
        assert reply.headers["retry-after"] == "10"
        assert reply.body["details"]["retryAfterSeconds"] == 10
        assert reply.body["details"]["causes"][0]["message"] == (
            "The disruption budget b is still being processed by the server."
        )

    async def test_of_two_kinds_is_not_supported(self, api):
        await run_pod(api)
        await budget(api, "one", allowed=5)
        await budget(api, "two", allowed=5)
        reply = await evict(api)
        assert reply.status == 500
        assert reply.message == (
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )

    async def test_a_dry_run_spends_nothing(self, api):
        await run_pod(api)
        await budget(api, allowed=1, currentHealthy=2)
        assert (await evict(api, query="?dryRun=All")).status == 201
        assert not await is_ending(api)
        assert (await api.get(BUDGETS + "/b")).body["status"]["disruptionsAllowed"] == 1

    @pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
    async def test_pods_that_do_no_work_are_not_protected(self, api, phase):
        await run_pod(api, phase=phase)
        await budget(api, allowed=0)
        assert (await evict(api)).status == 201


class TestUnhealthyPods:
    @pytest.mark.parametrize(
        ("policy", "healthy", "status"),
        [
            pytest.param(None, 0, 429, id="are protected while the budget is not met"),
            pytest.param(None, 1, 201, id="may go when enough others are healthy"),
            pytest.param("IfHealthyBudget", 0, 429, id="the same if the policy says so"),
            pytest.param("AlwaysAllow", 0, 201, id="may always go if the policy says so"),
        ],
    )
    async def test_by_policy(self, api, policy, healthy, status):
        await run_pod(api, ready=False)
        spec = {"unhealthyPodEvictionPolicy": policy} if policy else {}
        await budget(api, allowed=0, currentHealthy=healthy, spec=spec)
        assert (await evict(api)).status == status
        assert (await api.get(BUDGETS + "/b")).body["status"]["disruptionsAllowed"] == 0


class TestWithAWebhook:
    """Validating webhooks are asked before the budget, with the Eviction as the object."""

    @pytest.fixture
    async def asked(self, api):
        asked = []

        class Caller:
            async def call(self, endpoint, body, timeout_s):
                request = json.loads(body)["request"]
                asked.append(request)
                status = {"code": 429, "reason": "TooManyRequests", "message": "being moved first"}
                answer = {"uid": request["uid"], "allowed": False, "status": status}
                return json.dumps(
                    {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": answer}
                ).encode()

        api.server.cluster.admission.webhooks.caller = Caller()
        rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"]}
        webhook = {
            "name": "evictions.example.com",
            "clientConfig": {"url": "https://example.com/"},
            "rules": [{**rule, "resources": ["pods/eviction"]}],
            "sideEffects": "NoneOnDryRun",
            "admissionReviewVersions": ["v1"],
            "matchConditions": [
                {"name": "not-by-us", "expression": "request.userInfo.username != 'system:us'"},
                {"name": "not-excluded", "expression": "!(request.namespace in ['kube-system'])"},
            ],
        }
        made = await api.post(
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            {"metadata": {"name": "evictions"}, "webhooks": [webhook]},
        )
        assert made.status == 201, made.body
        return asked

    async def test_that_answers_429_the_pod_stays(self, api, asked):
        await run_pod(api)
        reply = await evict(api)
        message = 'admission webhook "evictions.example.com" denied the request: being moved first'
        assert (reply.status, reply.message) == (429, message)
        assert not await is_ending(api)
        (request,) = asked
        assert request["kind"] == {"group": "policy", "version": "v1", "kind": "Eviction"}
        assert request["resource"] == {"group": "", "version": "v1", "resource": "pods"}
        assert (request["subResource"], request["name"], request["namespace"]) == ("eviction", "p", "default")
        assert request["object"]["kind"] == "Eviction"

    async def test_a_dry_run_of_the_deletion_is_in_the_object_only(self, api, asked):
        """As in the real server, which fills `dryRun` from the options of the request."""
        await run_pod(api)
        await evict(api, dryRun=["All"])
        await evict(api, query="?dryRun=All")
        assert [each["dryRun"] for each in asked] == [False, True]
        assert asked[0]["object"]["deleteOptions"] == {"dryRun": ["All"]}

    async def test_the_request_of_an_impersonated_user_is_that_users(self, api, asked):
        """`Impersonate-User`, as in the real server: a webhook can tell the clients apart."""
        await run_pod(api)
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
        reply = await api.post(f"{PODS}/p/eviction", eviction, impersonate_user="system:us")
        assert (reply.status, asked) == (201, [])
        assert await is_ending(api)
