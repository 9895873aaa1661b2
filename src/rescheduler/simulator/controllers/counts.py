"""Numbers that may be given as a share of another."""

__all__ = ["scaled"]


def scaled(value: int | str | None, total: int, *, round_up: bool) -> int:
    """`3`, or `25%` of the total. Raises `ValueError` for any other text."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    if not value.endswith("%"):
        raise ValueError(f"invalid value {value!r}: neither a number nor a percentage")
    share = int(value[:-1]) * total
    return -(-share // 100) if round_up else share // 100
