"""The Chinese page has a translation of each code whose meaning the server sends in English."""

import json
import re
from enum import StrEnum
from pathlib import Path

import pytest

from rescheduler.api.daemon_status import HaltReason
from rescheduler.migrations.transition_table import MigrationStep
from rescheduler.planner.reasons import REMEDIES, Reason

CODES = json.loads((Path(__file__).parents[3] / "web/src/i18n/codes.zh.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("kind", "codes"), [("reasons", Reason), ("halts", HaltReason), ("steps", MigrationStep)]
)
def test_each_code_is_translated(kind: str, codes: type[StrEnum]) -> None:
    assert list(CODES[kind]) == list(codes), (
        "translate the code in web/src/i18n/codes.zh.json and run `make web`"
    )
    assert all(re.search("[\u4e00-\u9fff]", text) for texts in CODES[kind].values() for text in texts)


@pytest.mark.parametrize("reason", Reason)
def test_a_translation_names_the_same_settings_and_commands(reason: Reason) -> None:
    """So that it does not fall behind when the English text names another one."""
    for english, chinese in zip(REMEDIES[reason], CODES["reasons"][reason], strict=True):
        assert _code(chinese) == _code(english)
        assert chinese.endswith("。")


def _code(text: str) -> set[str]:
    return set(re.findall("`[^`]+`", text))
