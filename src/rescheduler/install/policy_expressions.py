"""Parts of CEL expressions that several admission policies share."""

from typing import Final

from rescheduler.model.migrations import GROUP, KIND

__all__ = [
    "OWN_PREFIX",
    "any_of",
    "is_controller",
    "is_migration",
    "is_owned_by_migration",
    "listed",
    "or_empty",
    "unchanged_except",
]

OWN_PREFIX: Final = f"{GROUP}/"


def any_of(*expressions: str) -> str:
    return " || ".join(f"({each})" for each in expressions)


def listed(names: tuple[str, ...]) -> str:
    return f"[{', '.join(repr(name) for name in names)}]"


def or_empty(path: str, empty: str) -> str:
    """`dyn` lets CEL go through the fields of an object as if it were a map."""
    return f"has({path}) ? dyn({path}) : dyn({empty})"


def unchanged_except(new: str, old: str, allowed: str) -> str:
    """True if the maps differ only in keys `k` for which `allowed` holds."""
    return (
        f"{new}.all(k, {allowed} || (k in {old} && {new}[k] == {old}[k]))"
        f" && {old}.all(k, {allowed} || k in {new})"
    )


def is_migration(reference: str) -> str:
    return f"({reference}.kind == '{KIND}' && {reference}.apiVersion.startsWith('{OWN_PREFIX}'))"


def is_controller(reference: str) -> str:
    return f"(has({reference}.controller) && {reference}.controller)"


def is_owned_by_migration(item: str) -> str:
    owned = f"o, {is_migration('o')} && {is_controller('o')}"
    return f"has({item}.metadata.ownerReferences) && {item}.metadata.ownerReferences.exists({owned})"
