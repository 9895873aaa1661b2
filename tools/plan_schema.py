"""Generate `docs/plan.schema.json`, the JSON schema of a plan, from the types in `planner.plan_json`.

python -m tools.plan_schema --check|--write docs/plan.schema.json
"""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from rescheduler.planner.plan_json import PlanForm

__all__ = ["main", "plan_schema", "schema_text"]

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def plan_schema() -> dict[str, Any]:
    (reference,), components = msgspec.json.schema_components([PlanForm], ref_template="#/$defs/{name}")
    name = reference["$ref"].rpartition("/")[2]
    return {"$schema": DIALECT, **components.pop(name), "$defs": components}


def schema_text() -> str:
    return json.dumps(_named_for_readers(plan_schema()), indent=2) + "\n"


def _named_for_readers(value: Any) -> Any:
    """Return `Move` for `MoveForm`: the names of our types are internal."""
    if isinstance(value, dict):
        return {key.removesuffix("Form"): _named_for_readers(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_named_for_readers(part) for part in value]
    return value.removesuffix("Form") if isinstance(value, str) else value


def main(arguments: list[str]) -> int:
    action, file = arguments[0], Path(arguments[1])
    if action == "--write":
        file.write_text(schema_text(), encoding="utf-8")
    elif not file.exists() or file.read_text(encoding="utf-8") != schema_text():
        sys.stderr.write(f"{file} is out of date: run `make generate`\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
