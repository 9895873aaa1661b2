"""Generate the table of reasons in docs/reasons.md."""

import sys

from rescheduler.planner.reasons import REMEDIES
from tools.generated_section import GeneratedSection

__all__ = ["main", "reference"]


def reference() -> str:
    """Return the table of docs/reasons.md."""
    rows = (f"| `{reason}` | {meaning} | {remedy} |" for reason, (meaning, remedy) in REMEDIES.items())
    return "\n".join(("| reason | what it means | what to do |", "|---|---|---|", *rows, ""))


main = GeneratedSection(reference).main


if __name__ == "__main__":
    sys.exit(main())
