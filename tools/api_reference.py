"""Generate docs/api-reference.md: the fields of a PodMigration, and the metrics.

python -m tools.api_reference --check|--write docs/api-reference.md
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.metrics_core import Metric

from rescheduler.api.podmigration_crd import podmigration_crd
from rescheduler.daemon.metrics import Metrics
from tools.generated_section import GeneratedSection

__all__ = ["main", "reference"]


def reference() -> str:
    return "\n".join([*_fields(), *_metrics()])


def _fields() -> Iterator[str]:
    definition: Mapping[str, Any] = podmigration_crd()
    (version,) = definition["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]
    for part in ("spec", "status"):
        yield f"## PodMigration: {part}"
        yield ""
        yield schema[part]["description"]
        yield ""
        yield "| field | type | |"
        yield "|---|---|---|"
        yield from _rows(schema[part], "")
        yield ""
    yield "## PodMigration: rules"
    yield ""
    for rule in schema["spec"]["x-kubernetes-validations"]:
        yield f"- {rule['message']}"
    yield ""


def _rows(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        words = field.get("description", "")
        if "enum" in field:
            allowed = ", ".join(f"`{value}`" for value in field["enum"] if value is not None)
            words = f"{words} One of {allowed}.".strip()
        mark = " (required)" if name in required else ""
        yield f"| `{path}{name}` | {_type(field)}{mark} | {words} |"
        nested, step = (field["items"], "[].") if field["type"] == "array" else (field, ".")
        yield from _rows(nested, f"{path}{name}{step}")


def _type(field: Mapping[str, Any]) -> str:
    if field["type"] == "array":
        return f"list of {field['items']['type']}"
    return str(field.get("format", field["type"]))


def _metrics() -> Iterator[str]:
    yield "## Metrics"
    yield ""
    yield "[installing.md](installing.md#monitoring) explains them; alerts and a dashboard are there, too."
    yield ""
    yield "| metric | type | labels | |"
    yield "|---|---|---|---|"
    registry = Metrics(lags=lambda: {"Pod": 0.0}).registry
    collectors = registry._names_to_collectors  # noqa: SLF001 - the registry has no public list
    declared = {name: _label_names(each) for name, each in collectors.items()}
    for metric in sorted(registry.collect(), key=lambda each: each.name):
        name = _exposed(metric)
        # Metrics that are computed at a scrape have their labels themselves, also without any sample.
        labels = declared.get(metric.name, _label_names(metric))
        used = ", ".join(f"`{label}`" for label in labels)
        yield f"| `{name}` | {metric.type} | {used} | {metric.documentation} |"
    yield ""


def _label_names(declared: object) -> Sequence[str]:
    found: Sequence[str] = getattr(declared, "_labelnames", ())
    return found


def _exposed(metric: Metric) -> str:
    return f"{metric.name}_total" if metric.type == "counter" else str(metric.name)


main = GeneratedSection(reference).main


if __name__ == "__main__":
    sys.exit(main())
