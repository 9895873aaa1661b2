"""Strategies by name: the built-in ones, and those of plugins."""

import dataclasses
import sys
import types
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from rescheduler.api import podmigration
from rescheduler.api.podmigration import (
    BUILT_IN_TRAITS,
    EVACUATION,
    EVICTION,
    FAILED_PODS,
    MANUAL,
    STRATEGY_ENTRY_POINTS,
    StrategyTraits,
    traits_of,
)
from rescheduler.config.config_validation import BUILT_IN_STRATEGIES
from rescheduler.config.policy import FailedPodsPolicy, Policy
from rescheduler.strategies.strategy_registry import (
    BrokenStrategy,
    DuplicateStrategy,
    UnknownStrategy,
    strategies_of,
)


def enabling(*names: str) -> Policy:
    """And no others."""
    return dataclasses.replace(
        Policy(), enabled_strategies=names, failed_pods=FailedPodsPolicy(enabled=False)
    )


class Tidy:
    name = "Tidy"

    def propose(self, view):
        yield from ()


@pytest.fixture
def plugin(monkeypatch):
    """A module that a user has installed."""
    module = types.ModuleType("tidy_plugin")
    module.Tidy = Tidy
    module.other_name = lambda: types.SimpleNamespace(name="Other", propose=None)
    module.__getattr__ = lambda name: sys.exit(f"no {name}")
    module.half = lambda: types.SimpleNamespace(name="Tidy")
    monkeypatch.setitem(sys.modules, "tidy_plugin", module)

    def entry(value: str, name: str = "Tidy") -> EntryPoint:
        return EntryPoint(name, value, STRATEGY_ENTRY_POINTS)

    return entry


@pytest.mark.parametrize("name", sorted(BUILT_IN_STRATEGIES))
def test_every_built_in_strategy_is_found_under_its_name(name):
    (found,) = strategies_of(enabling(name))
    assert found.name == name


def test_every_built_in_strategy_has_traits_and_unknown_names_have_the_defaults():
    assert set(BUILT_IN_TRAITS) == {*BUILT_IN_STRATEGIES, EVACUATION, EVICTION, FAILED_PODS, MANUAL}
    assert traits_of("Tidy") == StrategyTraits()


def test_a_plugin_declares_its_traits_on_its_class(plugin, monkeypatch):
    """The planner and the controllers ask by name, and find what the installed plugin says."""
    monkeypatch.setattr(Tidy, "traits", StrategyTraits(urgent=True), raising=False)
    installed = EntryPoints([plugin("tidy_plugin:Tidy"), plugin("nowhere:Broken", "Broken")])
    monkeypatch.setattr(podmigration, "entry_points", installed.select)
    for cached in (podmigration.strategy_plugins, podmigration._plugin_traits):
        cached.cache_clear()
    try:
        assert traits_of("Tidy") == StrategyTraits(urgent=True)
        assert traits_of("Broken") == StrategyTraits()
    finally:
        for cached in (podmigration.strategy_plugins, podmigration._plugin_traits):
            cached.cache_clear()


def test_they_come_in_order_of_precedence():
    names = ("ResourceOptimization", "LoadBalancing")
    assert tuple(each.name for each in strategies_of(enabling(*names))) == names


def test_pods_that_keep_failing_come_first_unless_that_is_switched_off():
    policy = dataclasses.replace(Policy(), enabled_strategies=("NodeMaintenance",))
    assert [each.name for each in strategies_of(policy)] == ["FailedPods", "NodeMaintenance"]


@pytest.mark.parametrize("name", [FAILED_PODS, MANUAL, EVICTION, EVACUATION])
def test_no_plugin_has_a_name_that_rescheduler_uses_itself(plugin, name):
    """Its moves would count as those that a user or another client requested, past protections."""
    with pytest.raises(DuplicateStrategy, match=f"adds {name}, which is a built-in strategy"):
        strategies_of(enabling("LoadBalancing"), [plugin("tidy_plugin:Tidy", name)])


def test_a_plugin_is_found_by_its_entry_point(plugin):
    (found,) = strategies_of(enabling("Tidy"), [plugin("tidy_plugin:Tidy")])
    assert isinstance(found, Tidy)


def test_a_plugin_that_is_not_enabled_is_not_imported(plugin):
    assert len(strategies_of(enabling("LoadBalancing"), [plugin("nowhere:Tidy")])) == 1


def test_two_plugins_of_one_name_are_refused(plugin):
    with pytest.raises(
        DuplicateStrategy, match=r"two plugins add the strategy Tidy: tidy_plugin:Tidy and other:Tidy"
    ):
        strategies_of(enabling("LoadBalancing"), [plugin("tidy_plugin:Tidy"), plugin("other:Tidy")])


def test_a_plugin_can_not_replace_a_built_in_strategy(plugin):
    with pytest.raises(DuplicateStrategy, match="LoadBalancing, which is a built-in strategy"):
        strategies_of(enabling("LoadBalancing"), [plugin("tidy_plugin:Tidy", "LoadBalancing")])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param(
            "nowhere:Tidy",
            r"can't load the strategy Tidy from nowhere:Tidy: ModuleNotFoundError",
            id="no such module",
        ),
        pytest.param("types:Missing", r"can't load .* types:Missing: AttributeError", id="no such class"),
        pytest.param(
            "tidy_plugin:Missing", r"can't load .* tidy_plugin:Missing: SystemExit", id="ends the process"
        ),
        pytest.param("tidy_plugin:half", r"lacks propose", id="not a strategy"),
        pytest.param("tidy_plugin:other_name", r"has the name Other", id="another name inside than outside"),
    ],
)
def test_a_plugin_that_can_not_be_used_takes_no_part_and_says_why(plugin, value, message):
    (found,) = strategies_of(enabling("Tidy"), [plugin(value)])
    assert found.name == "Tidy"
    with pytest.raises(BrokenStrategy, match=message):
        list(found.propose(None))


def test_an_unknown_strategy_is_refused():
    with pytest.raises(UnknownStrategy, match="unknown strategy Tidy"):
        strategies_of(enabling("Tidy"), [])
