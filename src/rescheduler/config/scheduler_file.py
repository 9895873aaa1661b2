"""Finds our part in a `KubeSchedulerConfiguration`, and says what of the rest is ignored.

The file may belong to a scheduler as well: whatever is not about us is left alone, with a note, so that
nobody believes it has an effect. What might be ours but can't be told for sure is refused.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rescheduler.config.faults import MISSING, Fault, Path, Words, did_you_mean, path_text, shown
from rescheduler.config.policy import ClientConnection, LeaderElection
from rescheduler.config.shape import settings

__all__ = ["API_VERSION", "KIND", "PLUGIN", "Found", "find_ours"]

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"
PLUGIN = "Rescheduler"
_ARGS_KIND = "ReschedulerArgs"

_SCHEDULERS_OWN = (
    "delayCacheUntilActive",
    "enableContentionProfiling",
    "enableProfiling",
    "extenders",
    "healthzBindAddress",
    "metricsBindAddress",
    "parallelism",
    "percentageOfNodesToScore",
    "podInitialBackoffSeconds",
    "podMaxBackoffSeconds",
)
_READ_HERE = ("apiVersion", "kind", "clientConnection", "leaderElection", "profiles")


@dataclass(slots=True)
class Found:
    """What the file has for us; blocks that are absent are empty."""

    args: dict[str, Any] = field(default_factory=dict)
    args_path: Path = ("profiles", 0, "pluginConfig", 0, "args")
    scheduler_name: str | None = None
    """Of the profile in which the args stand."""
    client_connection: dict[str, Any] = field(default_factory=dict)
    leader_election: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def ignore(self, path: Path, why: str) -> None:
        self.notes.append(f"{path_text(path)}: ignored: {why}")


def find_ours(data: Any) -> Found:
    found = Found()
    if not isinstance(data, Mapping):
        value = Words("empty") if data is None else data
        found.faults.append(Fault((), value, f"a {KIND} of {API_VERSION} is needed"))
        return found
    _check_type(data, found)
    for name in data:
        if name in _SCHEDULERS_OWN:
            found.ignore((name,), "a setting of the scheduler")
        elif name not in _READ_HERE:
            found.ignore((name,), f"unknown{did_you_mean(name, (*_READ_HERE, *_SCHEDULERS_OWN))}")
    found.client_connection = _common_block(data, "clientConnection", ClientConnection, found)
    found.leader_election = _common_block(data, "leaderElection", LeaderElection, found)
    _leave_the_schedulers_lease(found)
    _find_args(data, found)
    return found


def _check_type(data: Mapping[str, Any], found: Found) -> None:
    for name, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        if data.get(name) != wanted:
            value = MISSING if data.get(name) is None else data[name]
            found.faults.append(Fault((name,), value, wanted))


# --- blocks that every Kubernetes component has

_IGNORED_IN_BLOCKS = {
    ("clientConnection", "acceptContentTypes"): "chosen per kind of object",
    ("clientConnection", "contentType"): "chosen per kind of object",
}


def _common_block(data: Mapping[str, Any], name: str, block: type, found: Found) -> dict[str, Any]:
    """Zero, empty and null are "not set" here, as in Go: complete dumps of a configuration have them."""
    given = _map_at(data, name, (), found)
    names = [setting.name for setting in settings(block)]
    kept: dict[str, Any] = {}
    for key, value in given.items():
        path: Path = (name, key)
        if path in _IGNORED_IN_BLOCKS:
            found.ignore(path, _IGNORED_IN_BLOCKS[path])
        elif path == ("leaderElection", "resourceLock"):
            if value not in ("leases", "", None):
                found.faults.append(Fault(path, value, "leases"))
        elif key not in names:
            found.ignore(path, f"unknown{did_you_mean(key, names)}")
        elif value is False or value not in (0, "", "0s", "0", None):
            kept[key] = value
    return kept


def _leave_the_schedulers_lease(found: Found) -> None:
    """Whoever took the scheduler's Lease would stop the scheduler."""
    election = found.leader_election
    beside_the_scheduler = election.get("resourceNamespace", "kube-system") == "kube-system"
    if election.get("resourceName") == "kube-scheduler" and beside_the_scheduler:
        found.ignore(
            ("leaderElection", "resourceName"), "kube-scheduler is the scheduler's own Lease; ours is used"
        )
        for name in ("resourceName", "resourceNamespace"):
            election.pop(name, None)


# --- profiles


def _find_args(data: Mapping[str, Any], found: Found) -> None:
    places: list[Path] = []
    for profile_path, profile in _maps_in(data, "profiles", (), found):
        scheduler = profile.get("schedulerName")
        before = len(places)
        for path, entry in _maps_in(profile, "pluginConfig", profile_path, found):
            if not _is_ours(entry, path, found):
                continue
            places.append(path)
            if len(places) == 1:
                found.args = _args(entry, path, found)
                found.args_path = (*path, "args")
                found.scheduler_name = scheduler if isinstance(scheduler, str) else None
        _note_rest_of_profile(profile, profile_path, found, is_ours=len(places) > before)
    for path in places[1:]:
        allowed = f"one {PLUGIN} in the whole file; the other is {path_text(places[0])}"
        found.faults.append(Fault((*path, "name"), PLUGIN, allowed))
    if not places and not found.faults:
        found.notes.append(f"no pluginConfig named {PLUGIN}: all its args have their defaults")


def _is_ours(entry: Mapping[str, Any], path: Path, found: Found) -> bool:
    name = entry.get("name")
    if name == PLUGIN:
        return True
    if not isinstance(name, str) or not name or name.lower() == PLUGIN.lower():
        # Never guess: args that are overlooked would silently be the defaults, dryRun among them.
        found.faults.append(
            Fault((*path, "name"), MISSING if name is None else name, f"a plugin's name, ours is {PLUGIN}")
        )
    else:
        found.ignore(path, f"the plugin {shown(name)} is the scheduler's")
    return False


def _args(entry: Mapping[str, Any], path: Path, found: Found) -> dict[str, Any]:
    args = dict(_map_at(entry, "args", path, found))
    # The scheduler wants plugin args to carry a type; ours may.
    kind = args.pop("kind", None)
    args.pop("apiVersion", None)
    if kind not in (None, _ARGS_KIND):
        found.faults.append(Fault((*path, "args", "kind"), kind, f"{_ARGS_KIND}, or nothing"))
    for name in entry:
        if name not in ("name", "args"):
            found.ignore((*path, name), f"unknown{did_you_mean(name, ('args',))}")
    return args


def _note_rest_of_profile(profile: Mapping[str, Any], path: Path, found: Found, *, is_ours: bool) -> None:
    if not is_ours:
        found.ignore(
            path, f"the profile {shown(profile.get('schedulerName', 'without a name'))} has no {PLUGIN}"
        )
        return
    for name, value in profile.items():
        if name not in ("schedulerName", "pluginConfig") and value is not None:
            found.ignore((*path, name), "a setting of the scheduler")


# --- shapes


def _map_at(around: Mapping[str, Any], name: str, path: Path, found: Found) -> Mapping[str, Any]:
    value = around.get(name)
    if isinstance(value, Mapping):
        return value
    if value is not None:
        found.faults.append(Fault((*path, name), value, "a block of settings"))
    return {}


def _maps_in(
    around: Mapping[str, Any], name: str, path: Path, found: Found
) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    entries = around.get(name)
    if entries is not None and not isinstance(entries, list):
        found.faults.append(Fault((*path, name), entries, "a list"))
        return
    for index, entry in enumerate(entries or ()):
        place: Path = (*path, name, index)
        if isinstance(entry, Mapping):
            yield place, entry
        else:
            found.faults.append(Fault(place, entry, "a block of settings"))
