"""Helpers that load a configuration and return its errors."""

import json

import pytest

from rescheduler.config.config_loader import load_content
from rescheduler.config.config_validation import BUILT_IN_STRATEGIES, ConfigurationError

TYPE = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
ARGS = "profiles[0].pluginConfig[0].args"


class Loading:
    """Takes a whole file, the file's data, or only our args."""

    def text(self, text, strategies=BUILT_IN_STRATEGIES):
        return load_content(
            text if isinstance(text, bytes) else text.encode(), strategies, source="test.yaml"
        )

    def data(self, **parts):
        return self.text(json.dumps(TYPE | parts))

    def args(self, **args):
        return self.data(profiles=[{"pluginConfig": [{"name": "Rescheduler", "args": args}]}])

    def policy(self, **args):
        return self.args(**args).configuration.policy

    def faults(self, load, *given, **parts):
        """What is wrong, one text each, without the line."""
        with pytest.raises(ConfigurationError) as refused:
            load(*given, **parts)
        return [str(fault) for fault in refused.value.faults]

    def arg_faults(self, **args):
        """The same for our args alone, without the path to them."""
        return [fault.removeprefix(f"{ARGS}.") for fault in self.faults(self.args, **args)]


@pytest.fixture(scope="session")
def loading():
    return Loading()
