"""`rescheduler webhook`: what it refuses before it starts."""

import socket

import pytest
from click.testing import CliRunner

from rescheduler.cli import main
from tests.unit.cli.simulated_server import served


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        pytest.param(["--url", "http://x"], "does not have the form https://HOST[:PORT]", id="no TLS"),
        pytest.param(["--url", "https://x/path"], "does not have the form https://HOST[:PORT]", id="a path"),
        pytest.param(
            ["--url", "https://x:port"],
            "does not have the form https://HOST[:PORT]",
            id="a port that is none",
        ),
        pytest.param(["--url", "https://"], "does not have the form https://HOST[:PORT]", id="no host"),
        pytest.param(
            ["--service", ":443"], "does not have the form NAME[:PORT]", id="a service without a name"
        ),
        pytest.param(
            ["--service", "hook:"], "does not have the form NAME[:PORT]", id="a service without its port"
        ),
        pytest.param(
            ["--service", "hook:99999"], "does not have the form NAME[:PORT]", id="a port that there isn't"
        ),
        pytest.param(["--service", "a", "--url", "https://x"], "can't be combined", id="two addresses"),
    ],
)
def test_what_can_t_be_an_address_is_refused(arguments: list[str], why: str):
    done = CliRunner().invoke(main, ["webhook", *arguments])
    assert done.exit_code == 2
    assert why in done.output


def test_without_a_cluster_it_says_so(tmp_path):
    done = CliRunner().invoke(main, ["webhook", "--kubeconfig", str(tmp_path / "none")])
    assert done.exit_code == 1
    assert "none" in done.output


@pytest.mark.parametrize("option", ["--port", "--extender-port"])
def test_a_port_that_is_taken_is_said_with_what_to_do(tmp_path, option: str):
    with (
        served([], tmp_path / "kubeconfig") as kubeconfig,
        socket.create_server(("127.0.0.1", 0)) as taken,
    ):
        port = str(taken.getsockname()[1])
        arguments = ["--kubeconfig", str(kubeconfig), "--host", "127.0.0.1"]
        ports = ["--port", "0", "--extender-port", "0", option, port]
        done = CliRunner().invoke(main, ["webhook", *arguments, *ports])
    assert done.exit_code == 1
    assert f"can't listen on 127.0.0.1, port {port}: Address already in use. Choose another" in done.output
