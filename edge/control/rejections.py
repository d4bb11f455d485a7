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

Errors = Mapping[str, str]  # error messages, by hostport or by the id of a route or certificate

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
        self._rejected: dict[str, _Rejected] = {}  # by edge: Envoy's errors about one revision
        self._certificates: dict[str, str] = {}  # by the id of a rejected certificate: its account

    def report_name(self, plan: NamePlan, errors: NameErrors) -> None:
        """Replace the errors about the hostport that serves a name. Add the errors about the name's certificates."""
        self._report_certificates(plan.account, errors.certificates)
        if (edge := plan.edge or plan.refused_by) is None:
            return
        names = (plan.name, f"{domains.WILDCARD}{plan.name.partition('.')[2]}")
        host = next((it for name in names for it in edge.hosts if it.name == name), None)
        if host is None:
            return
        hostport = edge_states.hostport_of(host)
        found = {hostport: errors.refusal, **{it.id: errors.routes for it in edge.edge.routes}, **errors.certificates}
        self._put(edge, hostport, found)

    def report_listener(self, plan: Plan, listener: str, error: str) -> None:
        """Replace the error about a listener of an edge."""
        port = listener.removeprefix(PORT_PREFIX) if listener.startswith(PORT_PREFIX) else ""
        hosts = (it for it in plan.hosts if port_of(it.name) == port)
        self._put(plan, listener, {edge_states.hostport_of(it): error for it in hosts})

    def forget(self, item_keys: Iterable[ItemKey]) -> None:
        """Forget the errors that changed records may have resolved.

        After a change of an edge, these are all errors about the edge. After a change of any record of an account, they
        are also the errors that prevent names of the account from being served. If such a name is requested again and
        Envoy rejects it again, the error is reported again.
        """
        changed = {it for it in item_keys if is_relevant(it)}
        self._forget_certificates(changed)
        owners = {it.id if it.scope == accounts.SCOPE else it.scope.partition("#")[0] for it in changed}
        for edge in self._rejected.keys() & {it.id for it in changed}:
            self._replace(edge, self._rejected[edge], {})
        for edge, found in list(self._rejected.items()):
            if found.account in owners:
                self._replace(edge, found, {name: it for name, it in found.errors.items() if name not in it})

    def errors_of(self, edge: str, revision: int) -> Errors:
        """Return the errors about a revision of an edge."""
        found = self._rejected.get(edge)
        if found is None or found.revision != revision:
            return {}
        return {name: error for errors in found.errors.values() for name, error in errors.items()}

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
        found = self._rejected.get(edge.id)
        if found is None or found.revision != edge.revision:
            found = _Rejected(edge.account, edge.revision)
        redacted = {name: redact(error, _own_ids(plan)) for name, error in errors.items() if error}
        others = {name: it for name, it in found.errors.items() if name != source}
        self._replace(edge.id, found, {**others, **({source: redacted} if redacted else {})})

    def _replace(self, edge: str, found: _Rejected, errors: dict[str, Errors]) -> None:
        before = self._rejected.pop(edge, None)
        if errors:
            self._rejected[edge] = _Rejected(found.account, found.revision, errors)
        if before != self._rejected.get(edge):
            at = clock.rfc3339(clock.now())
            report = Report(found.revision, at, self._host, self.errors_of(edge, found.revision)) if errors else None
            self._write(found.account, edge, report)


def is_relevant(item_key: ItemKey) -> bool:
    """Return whether a change of this record can cause or resolve errors of Envoy.

    Changes of tunnels cannot. They are frequent, so they are ignored.
    """
    return kinds.find_by_path(item_key.scope.partition("#")[2]) is not kinds.TUNNELS


def redact(sentence: str, own_ids: Iterable[str]) -> str:
    """Return an error of Envoy without file names, and without ids that are not in `own_ids`."""
    allowed = frozenset(own_ids)
    text = _LEAD.sub("", " ".join(sentence.split()))
    text = _ID.sub(lambda found: found[0] if found[0] in allowed else "…", _FILE.sub("a file", text))
    return "".join(letter for letter in text if letter.isprintable())[: edge_status.MAX_ERROR]


def _own_ids(plan: Plan) -> frozenset[str]:
    certificates = {it.certificate for it in plan.hosts}
    return frozenset({plan.edge.id, *(it.id for it in plan.edge.routes), *certificates, *plan.backends})
