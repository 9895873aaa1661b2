"""From a file, or no file, to the configuration that the program runs with."""

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path as FilePath

from rescheduler.config.arguments import read_block
from rescheduler.config.consistency import contradictions, election_contradictions, repetitions
from rescheduler.config.document import LARGEST_BYTES, Document, Unreadable, read_document
from rescheduler.config.faults import ConfigurationError, Fault, Path, Words, shown
from rescheduler.config.policy import ClientConnection, Configuration, LeaderElection, Policy
from rescheduler.config.scheduler_file import Found, find_ours

__all__ = ["Loaded", "load_content", "load_file"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Loaded:
    configuration: Configuration
    notes: tuple[str, ...] = ()
    """What of the file has no effect, and why."""


def load_file(file: FilePath | None, strategies: Collection[str]) -> Loaded:
    """No file: the defaults. Notes are logged. Raises `ConfigurationError` with every fault."""
    if file is None:
        return Loaded(Configuration())
    loaded = load_content(_content(file), strategies, source=str(file))
    for note in loaded.notes:
        log.info("%s: %s", file, note)
    return loaded


def load_content(content: bytes, strategies: Collection[str], *, source: str) -> Loaded:
    """`source` names the content in messages. Raises `ConfigurationError` with every fault."""
    try:
        document = read_document(content)
    except Unreadable as unreadable:
        raise ConfigurationError(source, unreadable.faults) from None
    found = find_ours(document.data)
    configuration, faults = _configuration(found, strategies)
    if faults:
        raise ConfigurationError(source, _in_order(faults, document))
    return Loaded(configuration, tuple(found.notes) + tuple(_notes(found, configuration.policy)))


def _configuration(found: Found, strategies: Collection[str]) -> tuple[Configuration, list[Fault]]:
    policy, policy_faults = read_block(Policy, found.args, strategies, found.args_path)
    doubtful = _doubtful(policy_faults, len(found.args_path))
    policy_faults += _below(found.args_path, repetitions(found.args))
    policy_faults += _below(found.args_path, contradictions(policy, doubtful))

    connection, connection_faults = read_block(
        ClientConnection, found.client_connection, (), ("clientConnection",)
    )
    election, election_faults = read_block(LeaderElection, found.leader_election, (), ("leaderElection",))
    doubtful = _doubtful(election_faults, 1)
    election_faults += _below(("leaderElection",), election_contradictions(election, doubtful))

    configuration = Configuration(policy=policy, client_connection=connection, leader_election=election)
    return configuration, [*found.faults, *connection_faults, *election_faults, *policy_faults]


def _doubtful(faults: list[Fault], depth: int) -> set[str]:
    """Settings whose value is not known. A list that lacks a faulty entry still says something."""
    return {
        str(f.path[depth])
        for f in faults
        if len(f.path) <= depth + 1 or not isinstance(f.path[depth + 1], int)
    }


def _below(path: Path, faults: Iterator[Fault]) -> list[Fault]:
    return [replace(fault, path=(*path, *fault.path)) for fault in faults]


def _in_order(faults: list[Fault], document: Document) -> list[Fault]:
    """As they stand in the file."""
    placed = [replace(fault, line=document.line(fault.path)) for fault in faults]
    return sorted(placed, key=lambda fault: (fault.line or 0, str(fault)))


def _notes(found: Found, policy: Policy) -> Iterator[str]:
    if found.scheduler_name is not None and found.scheduler_name not in policy.known_schedulers:
        scheduler = shown(found.scheduler_name)
        yield f"pods of the scheduler {scheduler} are left alone: knownSchedulers does not name it"
    for strategy in policy.strategy_node_selectors:
        if strategy not in policy.enabled_strategies:
            yield f"strategyNodeSelectors: {strategy} is not among the enabledStrategies"


def _content(file: FilePath) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(LARGEST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(
            str(file), [Fault((), Words(reason), "a file that can be read is needed")]
        ) from None
