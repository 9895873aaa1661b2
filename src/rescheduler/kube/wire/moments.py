"""Times as the API writes them, in seconds since 1970.

The API server drops fractions of a second in both encodings, so nothing is lost here that it keeps.
"""

from datetime import datetime
from math import floor

__all__ = ["seconds"]


def seconds(moment: datetime | int | None) -> int:
    """From JSON; protobuf has the number already. 0 where there is none, as in protobuf."""
    if isinstance(moment, datetime):
        return floor(moment.timestamp())
    return moment or 0
