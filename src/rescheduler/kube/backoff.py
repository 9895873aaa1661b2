"""How long to wait before the next try: ever longer, and never all at the same time."""

import random

__all__ = ["Backoff"]


class Backoff:
    """Each delay is drawn from the upper half of a range that doubles up to `longest_s`.

    The jitter keeps a thousand clients from coming back to a restarted server in one wave.
    """

    def __init__(self, first_s: float, longest_s: float, dice: random.Random) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._dice = dice
        self._tries = 0

    def next_delay_s(self) -> float:
        # The exponent is bounded, for it grows for as long as a server is away.
        ceiling = min(self._longest_s, self._first_s * 2.0 ** min(self._tries, 32))
        self._tries += 1
        return ceiling * self._dice.uniform(0.5, 1.0)

    def reset(self) -> None:
        self._tries = 0
