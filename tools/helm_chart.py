"""Generate the Helm chart in `deploy/helm` from the same objects as the plain manifests.

Each option gets a placeholder as its value, and each placeholder in the objects becomes a reference to the
chart's value. Helm therefore renders what `rescheduler manifests` prints, except for the namespace, which
Helm creates itself. `values.yaml` and its schema come from the types of the options.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, get_args

import msgspec
import yaml

from rescheduler.api.daemon_status import program_version
from rescheduler.api.podmigration_crd import podmigration_crd
from rescheduler.config.policy import Policy
from rescheduler.install.account_policies import daemon_policies
from rescheduler.install.admission_policies import webhook_policies
from rescheduler.install.component_manifests import (
    EXTENDER_ONLY,
    NOTIFICATIONS,
    OTLP_ENDPOINT,
    RESTRICTED_COPIES,
    WEB_ACTIONS,
    WEB_CERTIFICATE,
    WEB_PAGE,
    WEB_PORT_NAME,
    configuration_file,
    daemon_objects,
    web_service,
    web_tls_arguments,
    webhook_objects,
)
from rescheduler.install.install_options import WEB, Options, with_install_id
from rescheduler.install.manifests import (
    as_yaml,
    daemon_network_policy,
    prometheus_rule,
    service_monitor,
    web_network_policy,
    webhook_network_policy,
)
from rescheduler.kube.api_resources import Object

__all__ = ["ChartValue", "chart", "described_values", "main", "values_schema", "values_yaml"]


class ChartValue(NamedTuple):
    field: str
    """Name in the code."""
    name: str
    """Name in the chart."""
    description: str
    group: type[msgspec.Struct] | None
    """Nested values."""


def described_values(kind: type[msgspec.Struct]) -> list[ChartValue]:
    _, components = msgspec.json.schema_components([kind])
    properties = components[kind.__name__]["properties"]
    return [
        ChartValue(
            each.name, each.encode_name, properties[each.encode_name]["description"], _group(each.type)
        )
        for each in msgspec.structs.fields(kind)
    ]


def _group(declared: Any) -> type[msgspec.Struct] | None:
    inner = (get_args(declared) or (declared,))[0]
    return inner if isinstance(inner, type) and issubclass(inner, msgspec.Struct) else None


def values_yaml(kind: type[msgspec.Struct] = Options, indent: str = "") -> str:
    """Return the lines of `values.yaml`, each value with its description above it."""
    lines: list[str] = []
    defaults = msgspec.to_builtins(kind())
    for value in described_values(kind):
        lines.append(f"{indent}# {value.description}")
        if value.group is not None:
            lines += [f"{indent}{value.name}:", values_yaml(value.group, indent + "  ").rstrip()]
        else:
            default = {value.name: defaults[value.name]}
            written = yaml.safe_dump(default, sort_keys=False, allow_unicode=True).rstrip()
            lines += [indent + line for line in written.splitlines()]
        if not indent:
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def values_schema() -> str:
    """Return the schema without references and defaults; the defaults are in `values.yaml`."""
    _, components = msgspec.json.schema_components([Options])
    schema = {"$schema": "http://json-schema.org/draft-07/schema#"}
    return json.dumps(schema | _resolved(components["Options"], components), indent=2) + "\n"


def _resolved(schema: Any, components: Object) -> Any:
    if isinstance(schema, list):
        return [_resolved(each, components) for each in schema]
    if not isinstance(schema, dict):
        return schema
    said = {key: value for key, value in schema.items() if key not in {"allOf", "anyOf", "$ref", "default"}}
    for part in (*schema.get("allOf", ()), *schema.get("anyOf", ()), {"$ref": schema.get("$ref")}):
        if part.get("$ref"):
            name = part["$ref"].rpartition("/")[2]
            return {**_resolved(components[name], components), **said}
    return {key: _resolved(value, components) for key, value in said.items()}


_NAMESPACE: Final = "⟦namespace⟧"
_EXCLUDED: Final = "⟦excludedNamespaces⟧"
_PLACEHOLDER: Final = re.compile(r"⟦([\w.]+)⟧")
_WHOLE_FIELD: Final = re.compile(r"^(?P<indent> *)(?P<name>[\w-]+): ⟦(?P<path>[\w.]+)⟧$")
_NEWLINE: Final = "\n"
_OPEN, _CLOSE = "⟪", "⟫"

_SERVES_PAGE: Final = "and .Values.web.enabled .Values.web.tlsSecret"
_HOSTS: Final = "⟦web.hosts⟧"
_CONDITIONS: Final = {
    f"- {EXTENDER_ONLY}": ".Values.webhook.extenderOnly",
    f"- {WEB_PAGE}": ".Values.web.enabled",
    f"- {WEB_ACTIONS}": "and .Values.web.enabled .Values.web.actions",
    **{f"- {each}": _SERVES_PAGE for each in web_tls_arguments("")},
    f"- {web_tls_arguments(_HOSTS)[-1]}": f"{_SERVES_PAGE} .Values.web.hosts",
    f"- name: {WEB_PORT_NAME}": _SERVES_PAGE,
    f"- name: {WEB_CERTIFICATE}": _SERVES_PAGE,
    f"- name: {NOTIFICATIONS}": ".Values.daemon.notificationsSecret",
    f"- name: {OTLP_ENDPOINT}": ".Values.daemon.otlpEndpoint",
}
"""Items of lists, by their first line, that are there only under a condition."""

_IMPLIED_ARGS: Final = {"dryRun": "dryRun", RESTRICTED_COPIES: "admissionPolicies.enabled"}
"""Settings that follow from other values, unless the args have them. Helm's `merge` would take false for "not
set"."""

_GENERATED: Final = "# Generated by `make generate` from src/rescheduler/install: edit that.\n"
_KEEP: Final = {"helm.sh/resource-policy": "keep"}
"""Removing the chart must not remove the CRD and with it all migrations, which are the history."""

T = TypeVar("T", bound=msgspec.Struct)


def chart() -> dict[str, str]:
    """Return the files of the chart by path."""
    options = _with_placeholders(Options, "")
    crd = podmigration_crd()
    crd["metadata"]["annotations"] = _KEEP
    daemon = _template(daemon_objects(options, _NAMESPACE, configuration_file(options.args)))
    webhook = _template(webhook_objects(options, _NAMESPACE, _EXCLUDED))
    web = _template([web_service(_NAMESPACE)])
    return {
        "Chart.yaml": _GENERATED + as_yaml(_chart_yaml()),
        "values.yaml": _GENERATED + values_yaml(),
        "values.schema.json": values_schema(),
        "templates/definition.yaml": _GENERATED + as_yaml(crd),
        "templates/admission-policies.yaml": _GENERATED + _policies(options),
        "templates/daemon.yaml": _GENERATED + daemon,
        "templates/webhook.yaml": _GENERATED
        + f"{{{{- if .Values.webhook.enabled }}}}\n{webhook}{{{{- end }}}}\n",
        "templates/web.yaml": _GENERATED + f"{{{{- if {_SERVES_PAGE} }}}}\n{web}{{{{- end }}}}\n",
        "templates/network-policies.yaml": _GENERATED + _network_policies(options),
        "templates/service-monitor.yaml": _GENERATED + _service_monitor(options),
        "templates/prometheus-rule.yaml": _GENERATED + _prometheus_rule(options),
        "templates/NOTES.txt": _NOTES,
    }


def _service_monitor(options: Options) -> str:
    chosen = msgspec.structs.replace(options.service_monitor, labels={})
    return _monitoring("serviceMonitor", _template([service_monitor(chosen, _NAMESPACE)]))


def _prometheus_rule(options: Options) -> str:
    chosen = msgspec.structs.replace(options.prometheus_rule, labels={})
    item = with_install_id(prometheus_rule(chosen, _NAMESPACE), _NAMESPACE)
    # Prometheus has templates of its own, which Helm must not read.
    text = as_yaml(item).replace("{{", _OPEN).replace("}}", _CLOSE)
    text = _with_references(text).replace(_OPEN, '{{ "{{" }}').replace(_CLOSE, '{{ "}}" }}')
    return _monitoring("prometheusRule", text)


def _monitoring(value: str, text: str) -> str:
    """Return the object if it is enabled, with the chosen labels before ours."""
    before, labels, after = text.partition("  labels:\n")
    more = (
        f"{{{{- with .Values.{value}.labels }}}}\n    {{{{- toYaml . | nindent 4 }}}}\n    {{{{- end }}}}\n"
    )
    return f"{{{{- if .Values.{value}.enabled }}}}\n{before}{labels}    {more}{after}{{{{- end }}}}\n"


def _network_policies(options: Options) -> str:
    daemon = _template([daemon_network_policy(options.network_policies, _NAMESPACE)])
    web = _template([web_network_policy(options.network_policies, _NAMESPACE)])
    webhook = _template([webhook_network_policy(_NAMESPACE)])
    return (
        f"{{{{- if .Values.networkPolicies.enabled }}}}\n{daemon}"
        f"{{{{- if {_SERVES_PAGE} }}}}\n---\n{web}{{{{- end }}}}\n"
        f"{{{{- if .Values.webhook.enabled }}}}\n---\n{webhook}{{{{- end }}}}\n{{{{- end }}}}\n"
    )


def _policies(options: Options) -> str:
    """Return the policies, without a check of `.Capabilities`.

    Every server that the chart supports has the kind, and `helm template`, which has no server, would omit
    the policies silently.
    """
    chosen = options.admission_policies
    daemon = _template(daemon_policies(chosen, _NAMESPACE))
    webhook = _template(webhook_policies(chosen, _NAMESPACE))
    return (
        f"{{{{- if .Values.admissionPolicies.enabled }}}}\n{daemon}"
        f"{{{{- if .Values.webhook.enabled }}}}\n---\n{webhook}{{{{- end }}}}\n{{{{- end }}}}\n"
    )


_NOTES: Final = """\
rescheduler {{ .Chart.AppVersion }} is installed in {{ .Release.Namespace }}.
{{- if dig "dryRun" .Values.dryRun .Values.args }}

It runs as a dry run: it plans, counts what it would have moved, and moves nothing. To let it move pods:

  helm upgrade {{ .Release.Name }} CHART -n {{ .Release.Namespace }} --reuse-values --set dryRun=false
{{- end }}

  rescheduler status        what it is doing, and why
  rescheduler plan          what it would move
  rescheduler pause         to stop it from starting anything new
{{- if .Values.web.enabled }}

The web page, for every user with a token of this cluster:

{{- if .Values.web.tlsSecret }}
  https://rescheduler-web.{{ .Release.Namespace }}.svc
{{- else }}
  kubectl port-forward -n {{ .Release.Namespace }} deploy/rescheduler 8081
  open http://localhost:8081
{{- end }}
{{- end }}
"""


def _chart_yaml() -> Object:
    return {
        "apiVersion": "v2",
        "name": "rescheduler",
        "description": "Moves Kubernetes pods to better nodes, safely: make before break.",
        "type": "application",
        "version": _semantic(program_version()),
        "appVersion": program_version(),
        "kubeVersion": ">=1.30.0-0",
    }


def _semantic(version: str) -> str:
    """Return the version in the form that Helm accepts for pre-releases."""
    return re.sub(r"\.(dev\d+)$", r"-\1", version)


# -- templates


def _with_placeholders(kind: type[T], path: str) -> T:
    """Return options in which each value is a placeholder with its own name."""
    found: dict[str, Any] = {}
    for value in described_values(kind):
        here = f"{path}.{value.name}".lstrip(".")
        found[value.field] = f"⟦{here}⟧" if value.group is None else _with_placeholders(value.group, here)
    return kind(**found)


def _template(items: list[Object]) -> str:
    return "---\n".join(_document(item) for item in items)


def _document(item: Object) -> str:
    text = _with_references(as_yaml(with_install_id(item, _NAMESPACE)))
    if item["kind"].endswith("WebhookConfiguration"):
        return f"{{{{- if not .Values.webhook.extenderOnly }}}}\n{text}{{{{- end }}}}\n"
    if item["kind"].startswith("ClusterRole") and item["metadata"]["name"] == WEB:
        return f"{{{{- if .Values.web.enabled }}}}\n{text}{{{{- end }}}}\n"
    return text


def _with_references(text: str) -> str:
    return _NEWLINE.join(_conditional_lines(text.split(_NEWLINE)))


def _conditional_lines(lines: list[str]) -> Iterator[str]:
    """Yield the lines as templates, and list items that depend on a value within its condition."""
    open_condition, depth = "", 0
    for line in lines:
        condition = _CONDITIONS.get(line.strip(), "")
        if open_condition and (condition or _depth(line) <= depth) and condition != open_condition:
            yield "{{- end }}"
            open_condition = ""
        if condition and not open_condition:
            yield f"{{{{- if {condition} }}}}"
            open_condition, depth = condition, _depth(line)
        yield _line(line)


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _line(line: str) -> str:
    if line.endswith(f": {_NAMESPACE}"):  # a namespace may be called 123, which YAML reads as a number
        return line.removesuffix(_NAMESPACE) + "{{ .Release.Namespace | quote }}"
    found = _WHOLE_FIELD.match(line)
    default = None if found is None else _default(found["path"])
    if found is None or (default not in ("", [], {}) and not isinstance(default, dict | list)):
        return _PLACEHOLDER.sub(_reference, line)
    indent, name, path = found["indent"], found["name"], found["path"]
    if name == "args":
        return _plugin_args(f"{indent}  ", f"{indent}{name}:")
    written = f"{{{{- toYaml .Values.{path} | nindent {len(indent) + 2} }}}}"
    if isinstance(default, str):
        written = f" {{{{ .Values.{path} }}}}"
    return f"{indent}{{{{- if .Values.{path} }}}}\n{indent}{name}:{written}\n{indent}{{{{- end }}}}"


def _plugin_args(indent: str, field: str) -> str:
    """Return the args of `configuration_text` as a template."""
    lines = [field]
    for name, path in _IMPLIED_ARGS.items():
        lines += (
            f'{indent}{{{{- if not (hasKey .Values.args "{name}") }}}}',
            f"{indent}{name}: {{{{ .Values.{path} }}}}",
            f"{indent}{{{{- end }}}}",
        )
    lines += (
        f"{indent}{{{{- with .Values.args }}}}",
        f"{indent}{{{{- toYaml . | nindent {len(indent)} }}}}",
        f"{indent}{{{{- end }}}}",
    )
    return _NEWLINE.join(lines)


def _default(path: str) -> Any:
    value = msgspec.to_builtins(Options())
    for name in path.split("."):
        value = value.get(name, _NAMESPACE)
    return value


def _reference(found: re.Match[str]) -> str:
    return _value_reference(found.group(1))


def _value_reference(path: str) -> str:
    if path == "excludedNamespaces":
        default = " ".join(f'"{each}"' for each in Policy().excluded_namespaces)
        return f'{{{{ get .Values.args "excludedNamespaces" | default (list {default}) | toJson }}}}'
    return "{{ .Release.Namespace }}" if path == "namespace" else f"{{{{ .Values.{path} }}}}"


# -- writing


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Check or write the Helm chart.")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--check", type=Path, metavar="FOLDER", help="exit with 1 if it is out of date")
    action.add_argument("--write", type=Path, metavar="FOLDER", help="bring it up to date")
    chosen = parser.parse_args(arguments)
    folder: Path = chosen.check or chosen.write
    wanted = chart()
    if chosen.check:
        stale = [name for name, text in wanted.items() if _content(folder / name) != text]
        for name in stale:
            sys.stderr.write(f"{folder / name} is out of date: run `make generate`\n")
        return 1 if stale else 0
    for name, text in wanted.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return 0


def _content(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
