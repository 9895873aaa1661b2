"""Generate the reference tables in docs/configuration.md from the settings.

python -m tools.configuration_reference --write docs/configuration.md
python -m tools.configuration_reference --check docs/configuration.md    (exit code 1 if out of date)
"""

import sys
from collections.abc import Iterator

from rescheduler.config.metric_settings import CustomMetric, Prometheus
from rescheduler.config.move_limits import MovesPerHour, Window
from rescheduler.config.notification_settings import NotificationSink
from rescheduler.config.policy import (
    ClientConnection,
    DefaultRetries,
    FailedPodsPolicy,
    HaltWhen,
    LeaderElection,
    Policy,
    SafeEvictions,
)
from rescheduler.config.policy_blocks import (
    Cost,
    Defragment,
    EvacuationSignal,
    MakeRoomPolicy,
    PlacementDriftPolicy,
    PodLifeTimePolicy,
    Setting,
    settings,
)
from rescheduler.config.scheduler_file import inline_yaml
from tools.generated_section import GeneratedSection

__all__ = ["TABLES", "main", "reference", "with_reference"]


TABLES: tuple[tuple[str, str, type], ...] = (
    ("Args of the plugin `Rescheduler`", "`profiles[].pluginConfig[].args`", Policy),
    ("Entries of `windows`", "", Window),
    ("`maxMovesPerHour`", "", MovesPerHour),
    ("`prometheus`", "", Prometheus),
    ("Entries of `customMetrics`", "", CustomMetric),
    ("`cost`", "", Cost),
    ("`makeRoom`", "", MakeRoomPolicy),
    ("`makeRoom.defragment`", "", Defragment),
    ("`placementDrift`", "", PlacementDriftPolicy),
    ("`podLifeTime`", "", PodLifeTimePolicy),
    ("`haltWhen`", "", HaltWhen),
    ("`failedPods`", "", FailedPodsPolicy),
    ("Entries of `failedPods.defaultRetries`", "", DefaultRetries),
    ("`safeEvictions`", "", SafeEvictions),
    ("Entries of `evacuateOn`", "", EvacuationSignal),
    ("Entries of `notifications`", "", NotificationSink),
    ("`clientConnection`", "", ClientConnection),
    ("`leaderElection`", "", LeaderElection),
)


def reference() -> str:
    return "\n".join(line for title, place, block in TABLES for line in _table(title, place, block))


def _table(title: str, place: str, block: type) -> Iterator[str]:
    yield f"### {title}"
    yield ""
    if place:
        yield f"At {place}."
        yield ""
    yield "| setting | type | default | meaning | allowed |"
    yield "|---|---|---|---|---|"
    for setting in settings(block):
        cells = (
            f"`{setting.name}`",
            setting.schema.type_name,
            _default(setting),
            setting.meaning,
            _allowed(setting),
        )
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    yield ""


def _default(setting: Setting) -> str:
    if setting.required:
        return "required"
    if setting.default is None:
        return "unset"
    return "see below" if setting.schema.block else f"`{inline_yaml(setting.schema.show(setting.default))}`"


def _allowed(setting: Setting) -> str:
    return "see below" if setting.schema.block else setting.schema.allowed


_PART = GeneratedSection(reference)
with_reference = _PART.renewed
main = _PART.main


if __name__ == "__main__":
    sys.exit(main())
