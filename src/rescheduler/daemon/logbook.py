"""What happens, as lines of the log."""

import logging
from typing import Final

from rescheduler.config.policy import Policy
from rescheduler.controller.telling import Checked, Told
from rescheduler.model.saying import say
from rescheduler.model.status import Halt, HaltReason

__all__ = ["Logbook"]

log: Final = logging.getLogger("rescheduler.daemon")


class Logbook(Told):
    def __init__(self) -> None:
        self._halts: frozenset[tuple[HaltReason, str]] = frozenset()
        self._is_dry_run = False
        self._planned: tuple[object, ...] = ()

    def leads(self, leads: bool) -> None:
        if leads:
            say(log, logging.INFO, "Leading", "this process acts from now on")
        else:
            say(log, logging.INFO, "StandingBy", "this process no longer acts")

    def checked(self, check: Checked) -> None:
        """What is planned again and again because it is not made is told once."""
        plan = check.plan
        what = (*((move.uid, move.target) for move in plan.moves), *plan.changes)
        is_news = bool(what) and (check.is_carried_out or what != self._planned)
        self._planned = what
        level = logging.INFO if is_news else logging.DEBUG
        count = len(plan.moves)
        words = f"{count} {'move' if count == 1 else 'moves'} planned"
        if what and not check.is_carried_out:
            words += ", not made: " + ("dry run" if self._is_dry_run else "halted")
        say(
            log,
            level,
            "CheckDone",
            words,
            check=check.number,
            moves=count,
            refused=sum(plan.refused_counts.values()),
            seconds=round(check.took_s, 3),
            planning=round(check.planning_s, 3),
            usage=check.usage_source,
        )
        for move in plan.moves:
            say(
                log,
                level,
                "MovePlanned",
                move.reason,
                pod=move.pod,
                source=move.source,
                target=move.target or "",
                strategy=move.strategy,
                handover=str(move.handover),
                wave=move.wave,
            )
        for change in plan.changes:
            say(
                log,
                level,
                "NodeChangePlanned",
                change.reason,
                node=change.node,
                change=str(change.change),
                strategy=change.strategy,
            )

    def checks_skipped(self, count: int, why: str) -> None:
        say(log, logging.WARNING, "CheckSkipped", why, checks=count)

    def halted(self, halts: tuple[Halt, ...]) -> None:
        for halt in halts:
            if (halt.reason, halt.namespace) not in self._halts:
                of = f" of namespace {halt.namespace}" if halt.namespace else ""
                words = f"{halt.words}. No move{of} is begun. How it ends: {halt.ends}."
                say(log, logging.WARNING, "Halted", words, **_facts(halt.reason, halt.namespace))
        now = frozenset((halt.reason, halt.namespace) for halt in halts)
        for reason, namespace in sorted(self._halts - now):
            say(log, logging.INFO, "HaltEnded", "no longer a reason to halt", **_facts(reason, namespace))
        self._halts = now

    def configured(self, policy: Policy) -> None:
        self._is_dry_run = policy.dry_run
        say(
            log,
            logging.INFO,
            "Configured",
            "this configuration holds from the next check on",
            strategies=",".join(policy.enabled_strategies),
            dry_run=policy.dry_run,
            interval=policy.rescheduling_interval.total_seconds(),
        )

    def configuration_refused(self, why: str) -> None:
        say(log, logging.ERROR, "ConfigurationRefused", f"{why}\nWhat held before still does.")


def _facts(reason: HaltReason, namespace: str) -> dict[str, str]:
    return {"reason": str(reason), **({"namespace": namespace} if namespace else {})}
