"""The outputs that the documentation shows are real."""

import pytest

from tools.documented_outputs import DOCUMENTS, ROOT, is_repeatable, renewed


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_page_shows_what_its_commands_print(path):
    """Run `make generate` after a change of an output."""
    text = path.read_text(encoding="utf-8")
    assert renewed(text) == text


def test_an_old_output_is_replaced_and_a_part_stays_a_part():
    old = "```console\n$ rescheduler config check examples/with-mistakes.yaml\nold\n…\n```"
    new = renewed(old)
    assert new.splitlines()[2:] == ["examples/with-mistakes.yaml: 9 errors", "…", "```"]


@pytest.mark.parametrize(
    ("command", "repeatable"),
    [
        ("rescheduler plan --from examples/shop.yaml", True),
        ("rescheduler config from-descheduler examples/descheduler-policy.yaml", True),
        pytest.param("rescheduler plan", False, id="reads a live cluster"),
        pytest.param("rescheduler plan --from examples/shop.yaml | head", False, id="needs a shell"),
        pytest.param("kubectl get -f examples/shop.yaml", False, id="another program"),
    ],
)
def test_only_commands_that_print_the_same_everywhere_are_run(command, repeatable):
    assert is_repeatable(command) is repeatable
