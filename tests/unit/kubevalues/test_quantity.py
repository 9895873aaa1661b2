"""Quantities have the same value as in Kubernetes, to the last nano."""

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubevalues.quantity import (
    Notation,
    Quantity,
    QuantityError,
    cpu_millis,
    parse_quantity,
    quantity_of,
    whole,
)

LIMIT = 2**63 - 1
SUFFIXES = {
    **{suffix: Fraction(10) ** power for suffix, power in zip("num", (-9, -6, -3), strict=True)},
    "": Fraction(1),
    **{suffix: Fraction(10) ** (3 * (i + 1)) for i, suffix in enumerate("kMGTPE")},
    **{f"{suffix}i": Fraction(1024) ** (i + 1) for i, suffix in enumerate("KMGTPE")},
}

amounts = st.integers(min_value=-(10**20), max_value=10**20)
quantities = st.builds(Quantity, amounts, st.sampled_from(Notation))
texts = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "+", "-"]),
    st.integers(0, 10**12),
    st.sampled_from(["", ".", ".0", ".5", ".125", ".000000001", ".0000000001"]),
    st.sampled_from([*SUFFIXES, "e3", "E3", "e+3", "e-3", "E-12", "e0"]),
)


# Text, canonical text, Value() and MilliValue(): printed by Kubernetes' own parser (apimachinery 0.37).
@pytest.mark.parametrize(
    ("text", "canonical", "value", "millis"),
    [
        ("0", "0", 0, 0),
        ("1", "1", 1, 1000),
        (".5", "500m", 1, 500),
        ("0.5", "500m", 1, 500),
        ("100m", "100m", 1, 100),
        ("1.5m", "1500u", 1, 2),
        ("1u", "1u", 1, 1),
        ("1n", "1n", 1, 1),
        ("1001n", "1001n", 1, 1),
        ("0.1n", "1n", 1, 1),
        ("0.00000000015k", "150n", 1, 1),
        ("1000k", "1M", 10**6, 10**9),
        ("1500", "1500", 1500, 1_500_000),
        ("1200000u", "1200m", 2, 1200),
        ("-0.1m", "-100u", -1, -1),
        ("-1.5", "-1500m", -2, -1500),
        ("-1Ki", "-1Ki", -1024, -1_024_000),
        ("1.5Gi", "1536Mi", 1_610_612_736, 1_610_612_736_000),
        ("0.5Mi", "512Ki", 524_288, 524_288_000),
        ("1.1Ki", "1126400m", 1127, 1_126_400),
        ("1023Ki", "1023Ki", 1_047_552, 1_047_552_000),
        ("1024Ki", "1Mi", 1_048_576, 1_048_576_000),
        ("1e3", "1e3", 1000, 10**6),
        ("1.5e3", "1500", 1500, 1_500_000),
        ("12e7", "120e6", 120_000_000, 120_000_000_000),
        ("1.5e-1", "150e-3", 1, 150),
        ("1e-30", "1e-9", 1, 1),
        ("16Ei", str(LIMIT), LIMIT, LIMIT * 1000),
    ],
)
def test_reads_and_writes_what_kubernetes_does(text, canonical, value, millis):
    quantity = parse_quantity(text)
    assert (str(quantity), quantity.whole, quantity.millis) == (canonical, value, millis)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [("5.", "5"), ("1.500", "1500m"), ("+4Ki", "4Ki"), ("04Ki", "4Ki"), ("1E3", "1e3"), ("1500e0", "1500")],
)
def test_writes_the_canonical_form_even_where_kubernetes_keeps_the_text_it_was_given(text, canonical):
    assert str(parse_quantity(text)) == canonical


@pytest.mark.parametrize(
    "text",
    ["", "+", "-", ".", "Mi", "k", "1e", "1K", "1i", "1ki", "1Kib", "1e9e", "1.2.3", "1_000",
     " 1", "1 ", "1\n", "0x1", "nan", "inf", "1,5", "\uff11", "--1", "1e1.5"],
)  # fmt: skip
def test_refuses_what_is_no_quantity_and_says_what_is_allowed(text):
    with pytest.raises(QuantityError, match="one of the suffixes"):
        parse_quantity(text)


@pytest.mark.parametrize(
    "text", ["10E", "1000E", "1e30", "1e999999999999", "9" * 10_000, "1e" + "9" * 10_000, "8Ei"]
)
def test_what_is_larger_than_kubernetes_can_hold_counts_as_the_largest(text):
    assert parse_quantity(text).whole == LIMIT
    assert parse_quantity(f"-{text}").whole == -LIMIT


@pytest.mark.parametrize("text", ["1e-999999999999", "0." + "0" * 10_000 + "1", "1e-" + "9" * 10_000])
def test_what_is_smaller_than_a_nano_counts_as_one(text):
    assert parse_quantity(text).nanos == 1


@pytest.mark.parametrize("text", ["0" * 10_000, "0." + "0" * 10_000, "0e999999999999", "-0"])
def test_zero_is_zero_however_it_is_written(text):
    assert str(parse_quantity(text)) == "0"


def test_digits_beyond_any_use_still_round_up():
    assert parse_quantity("1." + "0" * 10_000 + "1").nanos == 10**9 + 1
    assert parse_quantity("1" + "0" * 5 + "." + "0" * 10_000).nanos == 10**14


@given(texts)
def test_the_amount_is_exact_and_rounded_up_to_a_nano(text):
    sign = -1 if text.startswith("-") else 1
    bare = text.lstrip("+-")
    suffix = next((s for s in sorted(SUFFIXES, key=len, reverse=True) if s and bare.endswith(s)), "")
    number, _, exponent = bare.removesuffix(suffix).lower().partition("e")
    exact = Fraction(number) * SUFFIXES[suffix] * Fraction(10) ** int(exponent or 0)
    expected = min(-(-exact * 10**9 // 1), LIMIT * 10**9)
    assert parse_quantity(text).nanos == sign * expected


@given(texts)
def test_writing_and_reading_again_loses_nothing(text):
    quantity = parse_quantity(text)
    again = parse_quantity(str(quantity))
    assert again == quantity
    assert str(parse_quantity(str(again))) == str(again)


def test_a_binary_amount_that_1024_does_not_divide_is_read_again_as_decimal():
    quantity = parse_quantity("95174076828.125Ki")
    assert str(quantity) == "97458254672000"
    assert str(parse_quantity(str(quantity))) == "97458254672k"


@given(quantities, quantities)
def test_sums_and_differences_are_exact(one, other):
    assert (one + other).nanos == one.nanos + other.nanos
    assert one + other - other == one
    assert (one + other == one) is not bool(other)


@given(quantities, quantities)
def test_order_and_equality_follow_the_amount_alone(one, other):
    assert (one < other) is (one.nanos < other.nanos)
    assert (one == other) is (one.nanos == other.nanos)
    assert hash(Quantity(one.nanos, Notation.BINARY)) == hash(Quantity(one.nanos, Notation.DECIMAL))


@given(quantities)
def test_rounding_goes_away_from_zero(quantity):
    for rounded, step in ((quantity.whole, 10**9), (quantity.millis, 10**6)):
        assert abs(rounded) * step >= abs(quantity.nanos) > (abs(rounded) - 1) * step
        assert rounded * quantity.nanos >= 0


@pytest.mark.parametrize(
    ("value", "canonical"),
    [("1Gi", "1Gi"), (2, "2"), (0.5, "500m"), (1e22, str(LIMIT)), (1e-7, "100e-9"), (-3, "-3")],
)
def test_bare_numbers_in_json_are_quantities_too(value, canonical):
    assert str(quantity_of(value)) == canonical


@pytest.mark.parametrize("value", [True, None, [], {}, float("nan"), float("inf")])
def test_other_values_in_json_are_not(value):
    with pytest.raises(QuantityError):
        quantity_of(value)


def test_the_two_short_cuts():
    assert [cpu_millis(text) for text in ("1", "0.1", "250m", "100u")] == [1000, 100, 250, 1]
    assert [whole(text) for text in ("1Ki", "1k", "0.5", "110")] == [1024, 1000, 1, 110]


def test_the_same_text_is_parsed_once():
    assert parse_quantity("123456789Ki") is parse_quantity("123456789Ki")


def test_every_suffix_is_known():
    for (suffix, factor), count in product(SUFFIXES.items(), (1, 7)):
        assert parse_quantity(f"{count}{suffix}").nanos == count * factor * 10**9
