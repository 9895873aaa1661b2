"""Fixtures that more than one attack needs."""

from tests.unit.recovery.controller.conftest import set_ward, steered  # noqa: F401
