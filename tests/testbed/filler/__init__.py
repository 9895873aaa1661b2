"""Fills a cluster quickly: nodes, and pods that are bound and Running from the first moment.

`python -m tests.testbed.filler --nodes 5000 --pods 150000`
"""

from tests.testbed.filler.contents import Workload, plan
from tests.testbed.filler.filling import fill

__all__ = ["Workload", "fill", "plan"]
