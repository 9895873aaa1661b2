"""Commands on a terminal of a given width: what its screen shows in the end."""

import contextlib
import fcntl
import io
import os
import pty
import struct
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyte
import pytest

from rescheduler.cli import main

__all__ = ["Capture", "captured", "captured_display", "captured_errors", "screen_lines"]

_ERASE = "\r\x1b[2K"
"""With this, rich begins to redraw lines."""
_FRAME_HEIGHT = 60
_HEIGHT = 400
"""So high that nothing scrolls away."""


@dataclass(frozen=True, slots=True)
class Capture:
    lines: list[str]
    """As the terminal shows them."""
    written: list[str]
    """As the command wrote them, without colours: one that is wider than the terminal breaks."""
    frames: list[str]
    """What the terminal showed each time before lines were redrawn."""

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def screen_lines(content: str, width: int, height: int = _HEIGHT) -> list[str]:
    """Return what a terminal shows after it was sent this."""
    written = content.count("\n") + len(content) // width + 1
    screen = pyte.Screen(width, min(height, written))  # pyte takes long to show lines that are empty
    pyte.Stream(screen).feed(content)
    lines = [line.rstrip() for line in screen.display]
    while lines and not lines[-1]:
        lines.pop()
    return lines


@contextlib.contextmanager
def _terminal(width: int) -> Iterator[tuple[io.TextIOWrapper, list[bytes]]]:
    """Yield a file that is a terminal, and what is written to it when it is closed."""
    reading, writing = pty.openpty()
    fcntl.ioctl(writing, termios.TIOCSWINSZ, struct.pack("HHHH", _HEIGHT, width, 0, 0))
    found: list[bytes] = []

    def read() -> None:
        with contextlib.suppress(OSError):  # the last writer is gone
            while chunk := os.read(reading, 1 << 16):
                found.append(chunk)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        with io.TextIOWrapper(os.fdopen(writing, "wb", 0), encoding="utf-8", write_through=True) as file:
            yield file, found
    finally:
        reader.join()
        os.close(reading)


def captured(*arguments: object, width: int) -> Capture:
    """Run the command in this process, with its output on a terminal."""

    def run() -> None:
        with contextlib.suppress(SystemExit):
            main([*map(str, arguments)], standalone_mode=False)

    return _captured_stream("stdout", run, width)


def captured_errors(act: Callable[[], None], width: int) -> Capture:
    """Call the function, with what it writes to stderr on a terminal."""
    return _captured_stream("stderr", act, width)


def _captured_stream(name: str, act: Callable[[], None], width: int) -> Capture:
    with pytest.MonkeyPatch.context() as patch, _terminal(width) as (file, found):
        patch.setenv("COLUMNS", str(width))
        patch.setenv("LINES", str(_HEIGHT))
        patch.setenv("TERM", "xterm-256color")
        patch.delenv("NO_COLOR", raising=False)
        patch.setattr(sys, name, file)
        act()
    content = b"".join(found).decode()
    wide = screen_lines(content, 1000)
    return Capture(screen_lines(content, width), wide, _frames(content, width))


def captured_display(act: Callable[[], None], width: int) -> Capture:
    """Call the function, with what it writes to stdout on a terminal."""
    return _captured_stream("stdout", act, width)


def _frames(content: str, width: int) -> list[str]:
    """Return what a terminal shows just before each redraw, without repetitions."""
    screen = pyte.Screen(width, _FRAME_HEIGHT)
    stream = pyte.Stream(screen)
    found: dict[str, None] = {}
    for part in content.split(_ERASE):
        stream.feed(part)
        found["\n".join(line.rstrip() for line in screen.display).rstrip()] = None
        stream.feed(_ERASE)
    return [*found]
