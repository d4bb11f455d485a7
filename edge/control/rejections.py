"""Envoy's errors about the edges and certificates of this host. This file does no I/O.

File names are removed from the errors, and so are ids of other resources, which could belong to other accounts.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from chalicelib import clock, domains
from chalicelib.model.accounts import accounts
from chalicelib.model.base import kinds
from chalicelib.model.edges import edge_status
from chalicelib.model.edges.edge_status import Report
from chalicelib.model.edges.served import port_of
from chalicelib.model.serving import edge_states
from chalicelib.model.serving.edge_plans import Plan
from chalicelib.storage.records.change_log import ItemKey
from edge.control.names.loading import NameErrors
from edge.envoy.resources import PORT_PREFIX
from edge.plan.names import NamePlan

Errors = Mapping[str, str]  # Envoy's error messages, by hostport or by the id of a route or certificate

_ID = re.compile(r"\b[a-z]+_[0-9A-Za-z]{27}\b", flags=re.ASCII)
_FILE = re.compile(r"(?<![\w.:/])(?:/[\w.@~+-]+){2,}/?")
_LEAD = re.compile(r"^Error adding/updating \S+ \S+: ")


@dataclass(frozen=True)
class _Rejected:
    """Envoy's errors about one revision of an edge, grouped by the rejected hostport or listener."""

    account: str
    revision: int
    errors: dict[str, Errors] = field(default_factory=dict)


class Rejections:
    """Envoy's errors about edges, and about the certificates of all names.

    After each change, `write` receives an account, the id of an edge or certificate, and its new report. None removes
    the report.
    """

    def __init__(self, host: str, write: Callable[[str, str, Report | None], None]) -> None:
        self._host, self._write = host, write
        self._rejected: dict[str, _Rejected] = {}  # for each edge: Envoy's errors about one revision
        self._certificates: dict[str, str] = {}  # the accounts of rejected certificates, by certificate id

    def report_name(self, plan: NamePlan, errors: NameErrors) -> None:
        """Replace the errors about the hostport that serves a name. Add the errors about the name's certificates."""
        self._report_certificates(plan.account, errors.certificates)
        if (edge := plan.edge or plan.refused_by) is None:
            return
        names = (plan.name, f"{domains.WILDCARD}{plan.name.partition('.')[2]}")
        host = next((host for name in names for host in edge.hosts if host.name == name), None)
        if host is None:
            return
        hostport = edge_states.hostport_of(host)
        routes = {route.id: errors.routes for route in edge.edge.routes}
        self._put(edge, hostport, {hostport: errors.refusal, **routes, **errors.certificates})

    def report_listener(self, plan: Plan, listener: str, error: str) -> None:
        """Replace the error about a listener of an edge."""
        port = listener.removeprefix(PORT_PREFIX) if listener.startswith(PORT_PREFIX) else ""
        hosts = (host for host in plan.hosts if port_of(host.name) == port)
        self._put(plan, listener, {edge_states.hostport_of(host): error for host in hosts})

    def forget(self, item_keys: Iterable[ItemKey]) -> None:
        """Forget the errors of Envoy that a change of these records may have resolved.

        After a change of an edge, these are all errors about the edge. After a change of any record of an account, they
        are also the errors that prevent names of the account from being served. If such a name is requested again and
        Envoy rejects it again, the error is reported again.
        """
        changed = {item_key for item_key in item_keys if is_relevant(item_key)}
        self._forget_certificates(changed)
        owners = {
            item_key.id if item_key.scope == accounts.SCOPE else item_key.scope.partition("#")[0]
            for item_key in changed
        }
        for edge in self._rejected.keys() & {item_key.id for item_key in changed}:
            self._replace(edge, self._rejected[edge], {})
        for edge, rejected in list(self._rejected.items()):
            if rejected.account in owners:
                errors = {name: messages for name, messages in rejected.errors.items() if name not in messages}
                self._replace(edge, rejected, errors)

    def errors_of(self, edge: str, revision: int) -> Errors:
        """Return the errors about a revision of an edge."""
        rejected = self._rejected.get(edge)
        if rejected is None or rejected.revision != revision:
            return {}
        return {name: error for errors in rejected.errors.values() for name, error in errors.items()}

    def _report_certificates(self, account: str, errors: Errors) -> None:
        """Report each rejected certificate once. A change of the record of the certificate removes the report."""
        for id, error in errors.items():
            if id not in self._certificates:
                self._certificates[id] = account
                at = clock.rfc3339(clock.now())
                self._write(account, id, Report(0, at, self._host, {id: redact(error, {id})}))

    def _forget_certificates(self, changed: Iterable[ItemKey]) -> None:
        for item_key in changed:
            if (
                kinds.find_by_path(item_key.scope.partition("#")[2]) is kinds.TLS_CERTIFICATES
                and item_key.id in self._certificates
            ):
                self._write(self._certificates.pop(item_key.id), item_key.id, None)

    def _put(self, plan: Plan, source: str, errors: Errors) -> None:
        edge = plan.edge
        rejected = self._rejected.get(edge.id)
        if rejected is None or rejected.revision != edge.revision:
            rejected = _Rejected(edge.account, edge.revision)
        redacted = {name: redact(error, _own_ids(plan)) for name, error in errors.items() if error}
        other_errors = {name: messages for name, messages in rejected.errors.items() if name != source}
        self._replace(edge.id, rejected, {**other_errors, **({source: redacted} if redacted else {})})

    def _replace(self, edge: str, rejected: _Rejected, errors: dict[str, Errors]) -> None:
        before = self._rejected.pop(edge, None)
        if errors:
            self._rejected[edge] = _Rejected(rejected.account, rejected.revision, errors)
        if before != self._rejected.get(edge):
            at = clock.rfc3339(clock.now())
            messages = self.errors_of(edge, rejected.revision)
            report = Report(rejected.revision, at, self._host, messages) if errors else None
            self._write(rejected.account, edge, report)


def is_relevant(item_key: ItemKey) -> bool:
    """Return whether a change of this record can cause or resolve errors of Envoy.

    Changes of tunnels cannot. They are frequent, so they are ignored.
    """
    return kinds.find_by_path(item_key.scope.partition("#")[2]) is not kinds.TUNNELS


def redact(sentence: str, own_ids: Iterable[str]) -> str:
    """Return an error of Envoy without file names, and without ids that are not in `own_ids`."""
    allowed = frozenset(own_ids)
    text = _LEAD.sub("", " ".join(sentence.split()))
    text = _ID.sub(lambda match: match[0] if match[0] in allowed else "…", _FILE.sub("a file", text))
    return "".join(letter for letter in text if letter.isprintable())[: edge_status.MAX_ERROR]


def _own_ids(plan: Plan) -> frozenset[str]:
    certificates = {host.certificate for host in plan.hosts}
    return frozenset({plan.edge.id, *(route.id for route in plan.edge.routes), *certificates, *plan.backends})
