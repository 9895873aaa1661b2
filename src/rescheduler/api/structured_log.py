"""Write log lines that have an event name for programs, a message for users, and facts.

log_event(log, logging.INFO, "CheckDone", "3 moves are planned", moves=3)
"""

import logging

__all__ = ["log_event"]


def log_event(log: logging.Logger, level: int, event: str, words: str, **facts: object) -> None:
    """`event` names the kind of line, whatever its words are. Never put a secret into the facts."""
    log.log(level, "%s", words, extra={"event": event, "facts": facts}, stacklevel=2)
