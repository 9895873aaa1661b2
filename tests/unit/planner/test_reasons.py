"""Every refusal has a reason that is documented, with a remedy."""

from pathlib import Path

import pytest

from rescheduler.planner.protections.eligibility import PROTECTION_CHECKS
from rescheduler.planner.reasons import REMEDIES, Reason
from tools.reasons_table import main

DOCUMENT = Path(__file__).parents[3] / "docs" / "reasons.md"


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_says_what_it_means_and_what_to_do(reason):
    meaning, remedy = REMEDIES[reason]
    assert meaning.endswith(".")
    assert remedy.endswith(".")


def test_reasons_are_named_like_those_of_kubernetes():
    assert all(str(reason).isalnum() and str(reason)[0].isupper() for reason in Reason)


def test_the_document_is_up_to_date():
    assert main(["--check", str(DOCUMENT)]) == 0


def test_all_that_protects_pods_comes_before_what_is_found_out_later():
    """So that the table of questions and the list of reasons read in the same order."""
    asked = [reason for reason, _ in PROTECTION_CHECKS]
    order = list(Reason)
    assert set(asked) < set(order)
    assert max(order.index(reason) for reason in asked) < order.index(Reason.NO_TARGET)
