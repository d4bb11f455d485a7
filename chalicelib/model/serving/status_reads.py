"""Reads the records that decide the status of an edge."""

from datetime import datetime

from chalicelib import clock, domains, ids
from chalicelib.model.edges import edge_status
from chalicelib.model.edges.edge_status import NO_STATUS
from chalicelib.model.edges.modules import oauth
from chalicelib.model.names import base_names
from chalicelib.model.serving import account_reads, edge_plans, edge_states
from chalicelib.model.serving.account_item_keys import RecordsRequest
from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.serving.account_view import AccountView, Service
from chalicelib.model.serving.edge_states import ReportedStatus
from chalicelib.model.sign_in import managed_apps
from chalicelib.storage.records.items import Item


def read(edge: Item) -> ReportedStatus:
    """Return the status of an edge. Its records are read only if an edge host is live. Raises aws.Unavailable."""
    reports = edge_status.read_reports(edge.account, edge.id)
    if not reports.hosts:
        return ReportedStatus(NO_STATUS)
    domain, request = base_names.domain(), RecordsRequest(edge.account, ids=frozenset({edge.id}))
    rejected = edge_states.list_rejected(reports, edge.revision)
    records = AccountRecords.of(request, account_reads.complete(request, {}, domain), rejected)
    names = reports.operator_names or frozenset({domain, f"{domains.WILDCARD}{domain}"})
    view = AccountView(records, Service(domain, base_names.ports(), names, _read_managed_apps(records)))
    if (served := view.edges.get(edge.id)) is None:
        return ReportedStatus(NO_STATUS)
    now = clock.now()
    changed = _changed_at(edge) if served.revision == edge.revision else now
    return edge_states.decide(edge_plans.make_plan(served, view, now), view, reports, changed, now)


def _read_managed_apps(records: AccountRecords) -> frozenset[str]:
    """Return the identity providers for which the operator has a managed OAuth application.

    If no route needs such an application, return an empty set without a read.
    """
    rules = (route.modules.get(oauth.MODULE) for edge in records.edges.values() for route in edge.routes)
    is_needed = any(rule and not rule.client_id for rule in rules)
    return frozenset(managed_apps.read_all()) if is_needed else frozenset()


def _changed_at(edge: Item) -> datetime:
    """Return the time of an edge's last change."""
    return clock.at(edge.changed) if edge.changed else ids.created_at(edge.id)
