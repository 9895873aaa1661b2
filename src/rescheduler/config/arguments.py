"""A block of the file → its class, or every fault in it: the only place that uses pydantic.

pydantic walks the blocks, lists and maps and collects what the rules refuse; the words are ours.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from rescheduler.config.faults import MISSING, Fault, Path, did_you_mean
from rescheduler.config.shape import settings, shape_at

__all__ = ["read_block"]

T = TypeVar("T")

_KEY_MARK = "[key]"
"""How pydantic marks that a map's key is wrong, not its value."""


@cache
def _adapter(block: type) -> TypeAdapter[Any]:
    return TypeAdapter(block)


def read_block(
    block: type[T], data: Mapping[str, Any], strategies: Collection[str], path: Path
) -> tuple[T, list[Fault]]:
    """The block without what is wrong in it (defaults stand in), and all that is wrong in it."""
    adapter: TypeAdapter[T] = _adapter(block)  # type: ignore[arg-type] # classes are hashable
    given = _without_nulls(data)
    faults: list[Fault] = []
    while True:
        try:
            return adapter.validate_python(given, context=strategies), faults
        except ValidationError as error:
            details = error.errors(include_url=False)
        # The first round has found them all; a later one only finds what pruning has left incomplete.
        faults = faults or [fault for detail in details for fault in _faults(block, detail, path)]
        given = _pruned(given, [_removable(detail) for detail in details])


def _removable(detail: ErrorDetails) -> Path:
    place = detail["loc"]
    # A block that lacks something goes as a whole, and so does an entry whose key is wrong.
    return place[:-1] if detail["type"] == "missing" or _is_about_a_key(detail) else place


def _is_about_a_key(detail: ErrorDetails) -> bool:
    return detail["type"] == "refused" and detail["loc"][-1] == _KEY_MARK


def _pruned(data: Any, places: Collection[Path]) -> Any:
    """Without the values at these places; what is around them stays."""
    heads = {place[0] for place in places if len(place) == 1}
    rest = {
        head: [place[1:] for place in places if place[0] == head] for head in {place[0] for place in places}
    }
    if isinstance(data, Mapping):
        return {k: _pruned(v, rest[k]) if k in rest else v for k, v in data.items() if k not in heads}
    return [_pruned(v, rest[i]) if i in rest else v for i, v in enumerate(data) if i not in heads]


def _without_nulls(data: Any) -> Any:
    """A setting that is null is not set, as in Go."""
    if isinstance(data, Mapping):
        return {key: _without_nulls(value) for key, value in data.items() if value is not None}
    if isinstance(data, list):
        return [_without_nulls(entry) for entry in data]
    return data


def _faults(block: type, detail: ErrorDetails, prefix: Path) -> Iterator[Fault]:
    place = detail["loc"]
    match detail["type"]:
        case "refused" if _is_about_a_key(detail):
            yield Fault((*prefix, *place[:-1]), detail["input"], detail["ctx"]["allowed"])
        case "refused":
            yield Fault((*prefix, *place), detail["input"], detail["ctx"]["allowed"])
        case "unexpected_keyword_argument":
            yield Fault((*prefix, *place), detail["input"], _unknown(block, place))
        case "value_error":  # a block whose settings contradict each other
            yield Fault((*prefix, *place), detail["input"], str(detail["ctx"]["error"]))
        case "missing":
            yield Fault((*prefix, *place), MISSING, shape_at(block, place).allowed)
        case _:  # not a list, a map or a block where one belongs
            yield Fault((*prefix, *place), detail["input"], shape_at(block, place).allowed)


_RETIRED = {
    "enableSchedulingOptimization": "the original plugin's part in scheduling new pods; delete this line",
    "enablePreventiveRescheduling": "the original plugin's part in scheduling new pods; delete this line",
    "enableReschedulingController": "the original plugin's switch for its controller; see dryRun",
    "cpuScoreWeight": "the original plugin's scoring of new pods; delete this line",
    "memoryScoreWeight": "the original plugin's scoring of new pods; delete this line",
    "loadBalanceBonus": "the original plugin's scoring of new pods; delete this line",
}
"""Settings of later versions of the original plugin, which had scheduled new pods as well."""


def _unknown(block: type, place: Path) -> str:
    *around, name = place
    known = shape_at(block, tuple(around)).block
    names = [setting.name for setting in settings(known)] if known else []
    if not around and name in _RETIRED:
        return f"there is no such setting here ({_RETIRED[str(name)]})"
    return f"there is no such setting{did_you_mean(str(name), names)}"
