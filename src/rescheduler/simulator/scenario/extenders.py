"""Scheduler extenders, in the words of a scenario's file."""

from datetime import timedelta
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from rescheduler.simulator.behaviour.values import LongerThanNothing
from rescheduler.simulator.scenario.words import Part

__all__ = ["ExtenderAt"]


def _url(value: str) -> str:
    found = urlsplit(value)
    if found.scheme not in ("http", "https") or not found.hostname:
        raise ValueError("must be a URL such as http://127.0.0.1:8080/scheduler")
    return value


class ExtenderAt(Part):
    """Somebody who is asked which of the fitting nodes a pod may have; as in KubeSchedulerConfiguration."""

    url: Annotated[str, AfterValidator(_url)]
    """What the verbs are appended to."""
    filter: str = ""
    """The verb for which nodes are allowed; not given: it is not asked that."""
    prioritize: str = ""
    """The verb for which nodes are liked."""
    weight: int = Field(default=1, ge=1)
    ignorable: bool = False
    """While it gives no answer, pods are placed without it; else they wait."""
    names_only: bool = True
    """It is told the nodes' names (`nodeCacheCapable`), not the whole nodes."""
    managed_resources: tuple[str, ...] = ()
    """It is asked only about pods that mention one of these."""
    timeout: LongerThanNothing = timedelta(seconds=5)

    @model_validator(mode="after")
    def _asked_something(self) -> "ExtenderAt":
        if not self.filter and not self.prioritize:
            raise ValueError("must have `filter` or `prioritize`: it would never be asked")
        return self
