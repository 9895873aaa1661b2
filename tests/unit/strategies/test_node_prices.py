"""What nodes cost, by their label or by their type."""

import pytest

from rescheduler.cluster.node_record import NodeRecord
from rescheduler.config.policy_blocks import Cost
from rescheduler.strategies.cost_optimization import INSTANCE_TYPE, node_prices


def node(**labels):
    return NodeRecord("n", labels={"price": labels.get("price", ""), INSTANCE_TYPE: labels.get("kind", "")})


def test_without_prices_all_nodes_cost_the_same():
    assert node_prices([node(), node(price="7")], Cost()).tolist() == [1.0, 1.0]


def test_the_label_goes_before_the_table():
    cost = Cost(price_label="price", prices={"large": 3.0})
    found = node_prices([node(price="0.5", kind="large"), node(kind="large")], cost)
    assert found.tolist() == [0.5, 3.0]


def test_a_node_without_a_price_counts_with_the_average():
    cost = Cost(prices={"small": 1.0, "large": 3.0})
    assert node_prices([node(kind="small"), node(kind="large"), node()], cost).tolist() == [1.0, 3.0, 2.0]


@pytest.mark.parametrize("text", ["cheap", "", "nan", "inf", "-1"])
def test_what_is_no_price_counts_as_none(text):
    cost = Cost(price_label="price")
    assert node_prices([node(price="2"), node(price=text)], cost).tolist() == [2.0, 2.0]
