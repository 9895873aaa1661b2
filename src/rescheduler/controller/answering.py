"""How the API server has answered of late: what tells a server that fails from a bad moment."""

from collections import deque
from typing import Final

from rescheduler.controller.halting import Answers
from rescheduler.kube.call import Call

__all__ = ["Answering"]

WITHIN_S: Final = 60.0
_MOST: Final = 20
"""So few that a server which is back is soon believed."""
_SERVER_ERROR: Final = 500


class Answering:
    """Times are the caller's, of one clock."""

    def __init__(self) -> None:
        self._answers: deque[tuple[float, bool]] = deque(maxlen=_MOST)
        self._last = ""

    def note(self, call: Call, code: int, now_s: float) -> None:
        """`code` is 0 if no answer came."""
        failed = code == 0 or code >= _SERVER_ERROR
        if failed:
            self._last = f"{call} was answered {code}" if code else f"{call} was not answered"
        self._answers.append((now_s, failed))

    def lately(self, now_s: float) -> Answers:
        while self._answers and now_s - self._answers[0][0] > WITHIN_S:
            self._answers.popleft()
        failed = sum(each for _, each in self._answers)
        return Answers(len(self._answers), failed, self._last if failed else "")
