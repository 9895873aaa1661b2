"""Matrix products are correct, and the same on any number of cores."""

import os
import subprocess
import sys

import numpy as np
import pytest

from rescheduler.strategies.load_balancing.assignment import matrix_product

_PRINT_DIGEST = """
import hashlib
import numpy as np
from rescheduler.strategies.load_balancing.assignment import matrix_product

dice = np.random.default_rng(7)
left, right = dice.random((293, 8)), dice.random((1021, 8))
print(hashlib.sha256(matrix_product(left, right).tobytes()).hexdigest())
"""


@pytest.mark.parametrize(
    ("rows", "others", "columns"),
    [(0, 5, 2), (5, 0, 2), (1, 1, 1), (3000, 128, 4), (7, 200_000, 2)],
    ids=["without rows", "without others", "of single numbers", "in several slices", "in a slice per row"],
)
def test_a_product_is_what_it_is_called(rows: int, others: int, columns: int) -> None:
    rng = np.random.default_rng(rows + others)
    left, right = rng.random((rows, columns)), rng.random((others, columns))
    np.testing.assert_allclose(matrix_product(left, right), left @ right.T)


def test_a_product_is_the_same_however_many_threads_there_are() -> None:
    assert _digest(threads=1) == _digest(threads=2)


def _digest(*, threads: int) -> str:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(threads)}
    command = [sys.executable, "-c", _PRINT_DIGEST]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
