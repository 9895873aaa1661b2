"""`python -m tests.testbed.nodes COMMAND…` runs a command in a sandbox."""

import sys

from tests.testbed.nodes.sandbox import main

sys.exit(main(sys.argv[1:]))
