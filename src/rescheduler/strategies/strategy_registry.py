"""The strategies that can be enabled: the built-in ones, and those that plugins add by entry points.

A plugin names a class in the group `rescheduler.strategies`; its entry point bears the name that the
configuration enables it by. The class is called without arguments, once per check.
"""

from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from rescheduler.config.config_validation import BUILT_IN_STRATEGIES, FAILED_PODS, STRATEGY_ENTRY_POINTS
from rescheduler.config.policy import Policy
from rescheduler.strategies.strategy import Strategy

__all__ = ["BrokenStrategy", "DuplicateStrategy", "UnknownStrategy", "strategies_of"]


class BrokenStrategy(Exception):  # noqa: N818 - says what is wrong
    """A plugin that can't be used, with what is wrong with it."""


class DuplicateStrategy(Exception):  # noqa: N818 - says what is wrong
    """Two strategies of the same name: which one is meant?"""


class UnknownStrategy(LookupError):  # noqa: N818 - says what is wrong
    """No strategy has that name."""


def strategies_of(policy: Policy, plugins: Iterable[EntryPoint] | None = None) -> list[Strategy]:
    """Those that the policy enables, in order of precedence. Only these are imported.

    First of all comes FailedPods, unless it is switched off: pods that serve nobody are the most urgent.

    Raises `DuplicateStrategy`, `BrokenStrategy` or `UnknownStrategy`.
    """
    added = _by_name(entry_points(group=STRATEGY_ENTRY_POINTS) if plugins is None else plugins)
    first = [FAILED_PODS] if policy.failed_pods.enabled else []
    return [_strategy(name, added) for name in (*first, *policy.enabled_strategies)]


def _by_name(plugins: Iterable[EntryPoint]) -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for plugin in plugins:
        if plugin.name in BUILT_IN_STRATEGIES or plugin.name == FAILED_PODS:
            raise DuplicateStrategy(
                f"the plugin {_origin(plugin)} adds {plugin.name}, which is a built-in strategy"
            )
        if plugin.name in found and found[plugin.name].value != plugin.value:
            both = f"{_origin(found[plugin.name])} and {_origin(plugin)}"
            raise DuplicateStrategy(f"two plugins add the strategy {plugin.name}: {both}; uninstall one")
        found[plugin.name] = plugin
    return found


def _strategy(name: str, added: dict[str, EntryPoint]) -> Strategy:
    if name in BUILT_IN_STRATEGIES or name == FAILED_PODS:
        module = (
            "rescheduler.recovery.failed_pods_strategy"
            if name == FAILED_PODS
            else f"rescheduler.strategies.{_module(name)}"
        )
        made: Strategy = getattr(import_module(module), name)()
        return made
    plugin = added.get(name)
    if plugin is None:
        known = ", ".join(sorted({*BUILT_IN_STRATEGIES, *added}))
        raise UnknownStrategy(f"unknown strategy {name}; available: {known}")
    return _load_plugin(plugin)


def _load_plugin(plugin: EntryPoint) -> Strategy:
    """Whatever a plugin does wrong is told as the plugin's fault."""
    try:
        made: Strategy = plugin.load()()
    except Exception as error:
        fault = f"{type(error).__name__}: {error}"
        raise BrokenStrategy(
            f"can't load the strategy {plugin.name} from {_origin(plugin)}: {fault}"
        ) from error
    missing = [each for each in ("name", "urgent", "propose") if not hasattr(made, each)]
    if missing:
        raise BrokenStrategy(f"the strategy {plugin.name} from {_origin(plugin)} lacks {', '.join(missing)}")
    if made.name != plugin.name:
        raise BrokenStrategy(
            f"the strategy {plugin.name} from {_origin(plugin)} has the name {made.name}: they must match"
        )
    return made


def _module(name: str) -> str:
    """LoadBalancing → load_balancing."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def _origin(plugin: EntryPoint) -> str:
    package = plugin.dist.name if plugin.dist is not None else ""
    return f"{plugin.value} ({package})" if package else plugin.value
