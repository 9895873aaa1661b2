"""The configuration file, looked at again and again: what changed and is valid is used, the rest kept out.

By content, not by time: a mounted ConfigMap changes by a link to another directory, and editors write files
in ways of their own.
"""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rescheduler.config.faults import ConfigurationError
from rescheduler.config.loading import Loaded, load_file

__all__ = ["LOOK_EVERY_S", "ConfigurationFile"]

LOOK_EVERY_S: Final = 2.0


@dataclass(slots=True)
class ConfigurationFile:
    path: Path
    strategies: frozenset[str]
    """Names that it may mention."""
    _seen: bytes = b""

    def __post_init__(self) -> None:
        self._seen = self._digest()

    async def follow(
        self, use: Callable[[Loaded], None], refuse: Callable[[ConfigurationError], None]
    ) -> None:
        """For ever: `use` hears of every change that is valid, `refuse` of every other one."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            digest = await asyncio.to_thread(self._digest)
            if digest == self._seen:
                continue
            self._seen = digest
            try:
                loaded = await asyncio.to_thread(load_file, self.path, self.strategies)
            except ConfigurationError as error:
                refuse(error)
            else:
                use(loaded)

    def _digest(self) -> bytes:
        """Empty if it is not there: that is a change too, and no valid one."""
        try:
            return hashlib.sha256(self.path.read_bytes()).digest()
        except OSError:
            return b""
