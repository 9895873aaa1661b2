"""The number of examples that properties are tried with, every day and with `make explore`."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import change_examples, everyday_examples


class Item:
    """A collected test."""

    cls = None

    def __init__(self, test):
        self.obj = test


def examples_after(change, *, items):
    @settings(max_examples=90)
    @given(st.none())
    def tried(_):
        """Stand for a property."""

    change_examples([Item(tried)] * items, change)
    return tried._hypothesis_internal_use_settings.max_examples


def test_every_day_a_third_is_tried():
    assert examples_after(everyday_examples, items=1) == 30


def test_a_property_with_parameters_is_changed_once():
    """Its tests share one function: a hundred times as many is not a hundred times that for each of them."""
    assert examples_after(lambda declared: declared * 100, items=3) == 9000


def test_few_examples_stay_as_they_are():
    assert [everyday_examples(declared) for declared in (1, 12, 20, 100)] == [1, 12, 12, 33]
