"""The strategies that a policy can enable: built-in ones, and those that plugins add.

A plugin registers a class as an entry point of the group `rescheduler.strategies`. The name of the entry
point is the name in the configuration. The class is called once per check, with its arguments if it has a
model for them (`Args`). A plugin that can't be used is left out, and the plan says so.

A plugin runs in a thread of its own, so that one that does not return does not block anything else. Such a
thread can't be stopped and may still change the objects that it got, so the plan is dropped and made again.
"""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint
from queue import SimpleQueue
from typing import Any, ClassVar, Final, ParamSpec, TypeVar

from rescheduler.api.podmigration import BUILT_IN_TRAITS, EVACUATION, strategy_plugins
from rescheduler.config.config_validation import BUILT_IN_STRATEGIES, FAILED_PODS, plugin_arguments_of
from rescheduler.config.policy import Policy
from rescheduler.strategies.strategy import NodeProposal, Proposal, Strategy, View

__all__ = [
    "BrokenStrategy",
    "DuplicateStrategy",
    "HungStrategy",
    "PluginCall",
    "PluginTimeout",
    "UnknownStrategy",
    "UnusableStrategy",
    "calling_plugin",
    "strategies_of",
    "strategies_of_others",
    "without_hung_plugins",
]


# Strings, not imports: only the strategies that a policy enables are imported.
_BUILT_IN: Final = {
    "CostOptimization": "rescheduler.strategies.cost_optimization:CostOptimization",
    "Evacuation": "rescheduler.strategies.node_maintenance:Evacuation",
    "FailedPods": "rescheduler.recovery.failed_pods_strategy:FailedPods",
    "LoadBalancing": "rescheduler.strategies.load_balancing:LoadBalancing",
    "MakeRoom": "rescheduler.strategies.make_room:MakeRoom",
    "NodeMaintenance": "rescheduler.strategies.node_maintenance:NodeMaintenance",
    "PlacementDrift": "rescheduler.strategies.placement_drift:PlacementDrift",
    "PodLifeTime": "rescheduler.strategies.pod_life_time:PodLifeTime",
    "ResourceOptimization": "rescheduler.strategies.resource_optimization:ResourceOptimization",
    "TopologySpread": "rescheduler.strategies.topology_spread:TopologySpread",
}


class BrokenStrategy(Exception):  # noqa: N818 - says what is wrong
    """A plugin can't be used; the message says why."""


class DuplicateStrategy(Exception):  # noqa: N818 - says what is wrong
    """Two strategies have the same name."""


class UnknownStrategy(LookupError):  # noqa: N818 - says what is wrong
    """No strategy has the configured name."""


def strategies_of(policy: Policy, plugins: Iterable[EntryPoint] | None = None) -> list[Strategy]:
    """Return the strategies that the policy enables, in order of precedence, and import only these.

    FailedPods comes first unless it is disabled: pods that serve no traffic are the most urgent. Then comes
    Evacuation, if there are signals for it.

    Raises `DuplicateStrategy` or `UnknownStrategy`.
    """
    added = _by_name(strategy_plugins() if plugins is None else plugins)
    first = [FAILED_PODS] if policy.failed_pods.enabled else []
    first += [EVACUATION] if policy.evacuate_on else []
    return [_strategy(name, added, policy) for name in (*first, *policy.enabled_strategies)]


def strategies_of_others(policy: Policy) -> list[list[Strategy]]:
    """Return the strategies of all profiles but the first. Raises the same errors as `strategies_of`."""
    return [strategies_of(each) for each in policy.every_profile[1:]]


def _by_name(plugins: Iterable[EntryPoint]) -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for plugin in plugins:
        if plugin.name in BUILT_IN_TRAITS:
            raise DuplicateStrategy(
                f"the plugin {_origin(plugin)} adds {plugin.name}, which is a built-in strategy"
            )
        if plugin.name in found and found[plugin.name].value != plugin.value:
            both = f"{_origin(found[plugin.name])} and {_origin(plugin)}"
            raise DuplicateStrategy(f"two plugins add the strategy {plugin.name}: {both}; uninstall one")
        found[plugin.name] = plugin
    return found


def _strategy(name: str, added: dict[str, EntryPoint], policy: Policy) -> Strategy:
    if name in _BUILT_IN:
        module, _, class_name = _BUILT_IN[name].partition(":")
        made: Strategy = getattr(import_module(module), class_name)()
        return made
    plugin = added.get(name)
    if plugin is None:
        known = ", ".join(sorted({*BUILT_IN_STRATEGIES, *added}))
        raise UnknownStrategy(f"unknown strategy {name}; available: {known}")
    try:
        return _load_plugin(plugin, policy.strategy_args.get(name, {}))
    except BrokenStrategy as broken:
        return _unusable(name, broken)


class UnusableStrategy:
    """Replaces a plugin that can't be loaded: it raises the error, which the planner reports."""

    name: ClassVar[str] = ""

    def __init__(self, error: BrokenStrategy) -> None:
        self.error = error

    def propose(self, view: View) -> Iterator[Proposal | NodeProposal]:  # noqa: ARG002 - has none
        """Raise the error."""
        raise self.error


def _unusable(name: str, error: BrokenStrategy) -> Strategy:
    made: Strategy = type("Unusable", (UnusableStrategy,), {"name": name})(error)
    return made


def _load_plugin(plugin: EntryPoint, arguments: Mapping[str, Any]) -> Strategy:
    """Load a plugin; report every failure as the fault of the plugin."""

    def make() -> Strategy:
        kind = plugin.load()
        made: Strategy = kind(plugin_arguments_of(kind, arguments)) if hasattr(kind, "Args") else kind()
        return made

    try:
        with calling_plugin(plugin.name) as call:
            made: Strategy = call(make)
    except (Exception, SystemExit) as error:
        fault = f"{type(error).__name__}: {error}"
        raise BrokenStrategy(
            f"can't load the strategy {plugin.name} from {_origin(plugin)}: {fault}"
        ) from error
    missing = [each for each in ("name", "propose") if not hasattr(made, each)]
    if missing:
        raise BrokenStrategy(f"the strategy {plugin.name} from {_origin(plugin)} lacks {', '.join(missing)}")
    if made.name != plugin.name:
        raise BrokenStrategy(
            f"the strategy {plugin.name} from {_origin(plugin)} has the name {made.name}: they must match"
        )
    return made


def _origin(plugin: EntryPoint) -> str:
    package = plugin.dist.name if plugin.dist is not None else ""
    return f"{plugin.value} ({package})" if package else plugin.value


# -- plugins that don't return

PLUGIN_TIMEOUT_S: Final = 60.0
"""How long a plugin may take to load, to name hot nodes, or to make its proposals for one plan."""

_hung: Final[set[str]] = set()
"""The strategies that took longer. They stay until the process ends, because their code does not change."""

_P = ParamSpec("_P")
_R = TypeVar("_R")
PluginCall = Callable[[Callable[[], Any]], Any]
"""Calls the function in the thread of the plugin; returns what it returns, and raises what it raises."""


class PluginTimeout(Exception):  # noqa: N818 - says what is wrong
    """A plugin does not return. The caller must start again with new objects."""


class HungStrategy(Exception):  # noqa: N818 - says what is wrong
    """A plugin did not return earlier, and is not asked again."""

    def __init__(self) -> None:
        super().__init__(
            f"took longer than {PLUGIN_TIMEOUT_S:g} s, and is not used until rescheduler is restarted"
        )


@contextlib.contextmanager
def calling_plugin(name: str) -> Iterator[PluginCall]:
    """Yield a function that calls functions of this strategy: for a plugin, in a thread, with one timeout.

    Raises `HungStrategy`, and a call raises `PluginTimeout`.
    """
    if name in BUILT_IN_TRAITS:
        yield lambda function: function()
        return
    if name in _hung:
        raise HungStrategy
    calls: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
    results: SimpleQueue[tuple[Any, BaseException | None] | None] = SimpleQueue()
    thread = threading.Thread(target=_serve_calls, args=(calls, results), name=name, daemon=True)
    timer = threading.Timer(PLUGIN_TIMEOUT_S, results.put, (None,))
    timer.daemon = True

    def call(function: Callable[[], Any]) -> Any:
        calls.put(function)
        found = results.get()
        if found is None:
            _hung.add(name)
            raise PluginTimeout(name)
        result, error = found
        if error is not None:
            raise error
        return result

    thread.start()
    timer.start()
    try:
        yield call
    finally:
        timer.cancel()
        calls.put(None)


def without_hung_plugins(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a function to start again, without the plugin, if a plugin does not return."""

    @functools.wraps(function)
    def call_again(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        while True:
            known = len(_hung)
            try:
                return function(*args, **kwargs)
            except Exception as error:
                # The plugin still runs and may have caused this error by changing shared objects.
                if not isinstance(error, PluginTimeout) and len(_hung) == known:
                    raise

    return call_again


def _serve_calls(
    calls: "SimpleQueue[Callable[[], Any] | None]",
    results: "SimpleQueue[tuple[Any, BaseException | None] | None]",
) -> None:
    while (function := calls.get()) is not None:
        try:
            results.put((function(), None))
        except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
            results.put((None, error))
