"""The mutation check: which changes it makes, which tests it runs, what it may conclude."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

from tools.mutants import MutableModule, imported_functions
from tools.mutation_check import wilson
from tools.reaching_tests import ReachingTests

SOURCE = '''\
from functools import cache

LIMIT = 3


class Pod:
    @property
    def is_hot(self, limit=LIMIT):
        """Return whether it is hot."""
        return self.load() > limit

    def load(self):
        return 3


@cache
def hot(pods):
    found = []
    for pod in pods:
        if pod.is_hot:
            found.append(pod)
    return found
'''


@pytest.fixture
def module(tmp_path: Path) -> MutableModule:
    path = tmp_path / "hot_pods.py"
    path.write_text(SOURCE)
    return MutableModule(path, "hot_pods")


def changes(module: MutableModule, function: str) -> set[tuple[str, str]]:
    found = set()
    for mutant in module.mutants:
        if mutant.key[1] == function:
            lines = module.difference(mutant).splitlines()
            removed, added = ([line[1:].strip() for line in lines if line[0] == sign] for sign in "-+")
            found.add((*removed, *added))
    return found


def test_conditions_results_calls_and_assignments_of_functions_change(module: MutableModule) -> None:
    assert changes(module, "hot") == {
        ("found = []", "found = None"),
        ("if pod.is_hot:", "if not (pod.is_hot):"),
        ("found.append(pod)", "found.append(None)"),
        ("found.append(pod)", "pass"),
        ("return found", "return None"),
    }


def test_methods_behind_decorators_change_but_not_their_parameters(module: MutableModule) -> None:
    assert changes(module, "Pod.is_hot") == {
        ("return self.load() > limit", "return self.load() >= limit"),
        ("return self.load() > limit", "return None"),
    }


def test_what_runs_on_import_stays_as_it_is(module: MutableModule) -> None:
    assert {mutant.key[1] for mutant in module.mutants} == {"Pod.is_hot", "Pod.load", "hot"}


def test_changed_code_replaces_that_of_imported_functions(
    module: MutableModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also behind decorators, and wherever else the function was imported to."""
    monkeypatch.syspath_prepend(str(tmp_path))
    imported = import_module("hot_pods")
    try:
        assert imported.hot((imported.Pod(),)) == []
        functions = imported_functions()
        mutant = next(each for each in module.mutants if ">=" in module.difference(each))
        for function in functions[mutant.key]:
            function.__code__ = module.code_of(mutant)
        assert len(imported.hot((imported.Pod(),))) == 1
    finally:
        del sys.modules["hot_pods"]


def test_the_fastest_tests_that_reach_the_line_run_within_the_budget(module: MutableModule) -> None:
    reaching = ReachingTests(
        {"slow": 5.0, "quick": 0.1, "medium": 1.0, "elsewhere": 0.0, "broken": 0.0},
        ["broken"],
        {
            "hot_pods.py:hot": {
                "if pod.is_hot:": ["slow", "quick", "medium", "broken"],
                "return found": ["slow", "quick", "medium", "elsewhere"],
            }
        },
    )
    condition, result = (
        next(each for each in module.mutants if text in each.texts)
        for text in ("if pod.is_hot:", "return found")
    )
    assert reaching.of(condition, 10) == ["quick", "medium", "slow"]
    assert reaching.of(condition, 2) == ["quick", "medium"]
    assert reaching.of(result, 2) == ["elsewhere", "quick", "medium"]


def test_all_tests_of_a_function_run_for_a_line_that_was_not_measured(module: MutableModule) -> None:
    reaching = ReachingTests({"one": 1.0}, [], {"hot_pods.py:hot": {"return found": ["one"]}})
    unknown = next(each for each in module.mutants if "found.append(pod)" in each.texts)
    assert reaching.of(unknown, 10) == ["one"]


@pytest.mark.parametrize(
    ("killed", "total", "interval"),
    [
        pytest.param(90, 100, (0.826, 0.945), id="90 of 100: between 82.6 % and 94.5 %"),
        pytest.param(5, 5, (0.566, 1.0), id="5 of 5 says little"),
    ],
)
def test_a_rate_has_the_interval_of_its_sample(
    killed: int, total: int, interval: tuple[float, float]
) -> None:
    assert wilson(killed, total) == pytest.approx(interval, abs=0.0006)
