"""Commands that don't talk to a cluster don't import the HTTP stack."""

import subprocess
import sys


def test_importing_the_package_imports_no_http_stack():
    program = (
        "import sys, rescheduler.kube; print([m for m in ('aiohttp', 'google.protobuf') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
