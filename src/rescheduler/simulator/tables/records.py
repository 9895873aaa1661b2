"""Small kinds with little to show: namespaces, data, accounts and roles, leases, webhooks, measured use."""

from datetime import datetime

from rescheduler.simulator.exchange import Object
from rescheduler.simulator.tables.ages import age
from rescheduler.simulator.tables.layout import AGE, NAME, Cell, Column, Layout, each, wide
from rescheduler.simulator.tables.phrases import name, spec, status

__all__ = [
    "CONFIG_MAP",
    "LEASE",
    "NAMESPACE",
    "ROLE_BINDING",
    "SECRET",
    "SERVICE_ACCOUNT",
    "WEBHOOK_CONFIGURATION",
]


def _namespace_cells(namespace: Object, now: datetime) -> list[Cell]:
    return [name(namespace), status(namespace).get("phase", ""), age(namespace, now)]


NAMESPACE = Layout(
    (NAME, Column("Status", description="Active, or on its way out."), AGE), each(_namespace_cells)
)


def _config_map_cells(config_map: Object, now: datetime) -> list[Cell]:
    entries = len(config_map.get("data") or ()) + len(config_map.get("binaryData") or ())
    return [name(config_map), entries, age(config_map, now)]


CONFIG_MAP = Layout(
    (NAME, Column("Data", description="How many entries it has."), AGE), each(_config_map_cells)
)


def _secret_cells(secret: Object, now: datetime) -> list[Cell]:
    return [name(secret), secret.get("type", ""), len(secret.get("data") or ()), age(secret, now)]


SECRET = Layout(
    (
        NAME,
        Column("Type", description="What it is for."),
        Column("Data", description="How many entries it has."),
        AGE,
    ),
    each(_secret_cells),
)


def _service_account_cells(account: Object, now: datetime) -> list[Cell]:
    return [name(account), age(account, now)]


SERVICE_ACCOUNT = Layout((NAME, AGE), each(_service_account_cells))


def _role_binding_cells(binding: Object, now: datetime) -> list[Cell]:
    role = binding.get("roleRef") or {}
    subjects = binding.get("subjects") or ()
    accounts = [f"{s.get('namespace', '')}/{s['name']}" for s in subjects if s["kind"] == "ServiceAccount"]
    return [
        name(binding),
        f"{role.get('kind', '')}/{role.get('name', '')}",
        age(binding, now),
        ", ".join(s["name"] for s in subjects if s["kind"] == "User"),
        ", ".join(s["name"] for s in subjects if s["kind"] == "Group"),
        ", ".join(accounts),
    ]


ROLE_BINDING = Layout(
    (
        NAME,
        Column("Role", description="What is granted."),
        AGE,
        wide("Users", "To which users."),
        wide("Groups", "To which groups."),
        wide("ServiceAccounts", "To which service accounts."),
    ),
    each(_role_binding_cells),
)


def _lease_cells(lease: Object, now: datetime) -> list[Cell]:
    return [name(lease), spec(lease).get("holderIdentity") or "", age(lease, now)]


LEASE = Layout((NAME, Column("Holder", description="Who holds it."), AGE), each(_lease_cells))


def _webhook_cells(configuration: Object, now: datetime) -> list[Cell]:
    return [name(configuration), len(configuration.get("webhooks") or ()), age(configuration, now)]


WEBHOOK_CONFIGURATION = Layout(
    (NAME, Column("Webhooks", "integer", "How many webhooks it registers."), AGE), each(_webhook_cells)
)
