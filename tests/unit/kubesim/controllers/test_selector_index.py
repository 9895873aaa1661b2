"""Which budgets, Services and workloads select a pod."""

from kubesim import ApiServer
from kubesim.apiserver.object_store import StoreChange
from kubesim.controllers.selector_index import SelectorIndex
from kubevalues import Selector

BUDGET = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}


def selecting(*selectors, namespace="shop"):
    """Return the records of budgets `b0`, `b1`, … with these selectors."""
    server = ApiServer()
    names = [{"namespace": namespace, "name": f"b{number}"} for number in range(len(selectors))]
    server.load(
        [
            BUDGET | {"metadata": name, "spec": {"selector": each}}
            for name, each in zip(names, selectors, strict=True)
        ]
    )
    budgets = server.store.collection(server.cluster.kind("policy/v1", "PodDisruptionBudget"))
    return [budgets.records[f"{namespace}/b{number}"] for number in range(len(selectors))]


def expression(key, operator, *values):
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def test_every_kind_of_selector_is_found_in_the_order_of_creation():
    index = SelectorIndex(
        selecting(
            {"matchLabels": {"app": "web"}},
            {},
            expression("app", "In", "db", "web"),
            expression("app", "NotIn", "db"),
            {"matchLabels": {"app": "web", "tier": "back"}},
            None,
        )
    )
    found = [f"shop/b{number}" for number in (0, 1, 2, 3)]
    assert list(index.matching("shop", {"app": "web", "tier": "front"})) == found
    assert list(index.matching("shop", {"tier": "front"})) == ["shop/b1", "shop/b3"]
    assert list(index.matching("bank", {"app": "web"})) == []


def test_a_changed_selector_replaces_the_old_one_and_a_deleted_one_selects_nothing():
    (old,) = selecting({"matchLabels": {"app": "web"}})
    (new,) = selecting({"matchLabels": {"app": "db"}})
    index = SelectorIndex([old])
    index.update(StoreChange(2, old, new))
    assert list(index.matching("shop", {"app": "web"})) == []
    assert list(index.matching("shop", {"app": "db"})) == ["shop/b0"]
    index.update(StoreChange(3, new, None))
    assert list(index.matching("shop", {"app": "db"})) == []


def test_a_pod_is_not_compared_with_the_selectors_of_all_other_workloads(monkeypatch):
    """With 1,500 budgets and 30,000 pods, that took more than half of the simulator's time."""
    index = SelectorIndex(selecting(*({"matchLabels": {"app": f"app-{n}"}} for n in range(50))))
    compared, matches = [], Selector.matches
    monkeypatch.setattr(
        Selector, "matches", lambda self, labels: compared.append(self) or matches(self, labels)
    )
    assert list(index.matching("shop", {"app": "app-7"})) == ["shop/b7"]
    assert len(compared) == 1
