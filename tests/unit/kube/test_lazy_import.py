"""Commands that talk to no cluster must not pay for the HTTP stack."""

import subprocess
import sys

import pytest

import rescheduler.kube


def test_importing_the_package_imports_no_http_stack():
    program = (
        "import sys, rescheduler.kube; print([m for m in ('aiohttp', 'google.protobuf') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", rescheduler.kube.__all__)
def test_each_public_name_is_there_when_asked_for(name):
    assert getattr(rescheduler.kube, name).__name__ == name


def test_other_names_are_not():
    with pytest.raises(AttributeError, match="Manager"):
        _ = rescheduler.kube.Manager
