"""A real Kubernetes control plane on loopback, for tests and for contributors.

The simulator is ours, so it shares our misunderstandings; whatever matters also runs against this.
Everything in this package needs Linux (`/proc`, pidfds) and only the standard library.
"""

from tests.testbed.cache import Binaries, NotBuiltError, located
from tests.testbed.control_plane import ControlPlane, PartError
from tests.testbed.leftovers import LeftoverProcess, leftovers, running
from tests.testbed.options import Extender, Options
from tests.testbed.parts import Part
from tests.testbed.run_dir import down

__all__ = [
    "Binaries",
    "ControlPlane",
    "Extender",
    "LeftoverProcess",
    "NotBuiltError",
    "Options",
    "Part",
    "PartError",
    "down",
    "leftovers",
    "located",
    "running",
]
