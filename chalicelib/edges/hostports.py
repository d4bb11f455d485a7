"""Hostports, such as `a.example.com:443`, at which edges listen. Within an account, a hostport has only one edge."""

from typing import Annotated

from chalicelib import domains
from chalicelib.edges import status
from chalicelib.http.endpoints import Call, CreatedItem, Endpoint
from chalicelib.http.errors import Conflict, InvalidRequest
from chalicelib.http.resource import EditableResource
from chalicelib.model.base.kinds import TCP_EDGES
from chalicelib.model.edges import edges
from chalicelib.model.names import bans, base_names
from chalicelib.schema.fields import DOMAIN, MAX_DOMAIN
from chalicelib.schema.rules import After, entries, form, if_null
from chalicelib.storage.records.items import Item

_HOST = rf"(?:\*\.)?{DOMAIN}"
_PORT = "[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]"  # ports 1 to 65535


def _normalize(hostport: str) -> str:
    host, _, port = hostport.rpartition(":")
    if len(host) > MAX_DOMAIN:
        raise ValueError(f"must have a host of at most {MAX_DOMAIN} characters")
    return f"{domains.normalize(host)}:{port}"


def _reject_duplicates(hostports: list[str]) -> list[str]:
    if len(set(hostports)) < len(hostports):
        raise ValueError("must not name a hostport twice")
    return hostports


_Hostport = Annotated[
    str,
    form(
        f"{_HOST}:(?:{_PORT})",
        "must be of the form host:port with a port from 1 to 65535, for example app.example.com:443",
    ),
    After(_normalize, {"maxLength": MAX_DOMAIN + len(":65535")}),
]
_On443 = Annotated[
    str,
    form(f"{_HOST}:443", "must be of the form host:443, for example app.example.com:443"),
    After(_normalize, {"maxLength": MAX_DOMAIN + len(":443")}),
]
_Bounded = (entries(0, 20), After(_reject_duplicates, {"uniqueItems": True}), if_null([]))

Hostports = Annotated[list[_Hostport], *_Bounded]
HostportsOn443 = Annotated[list[_On443], *_Bounded]


class Listeners(EditableResource):
    """The API endpoints of one kind of edge: HTTPS, TLS or TCP edges.

    If an edge gets a new hostport, the account's tunnel at that hostport is closed. A host below TUNNEL_DOMAIN then
    belongs to the account of the edge: no other account can use it.
    """

    def endpoints(self) -> tuple[Endpoint, ...]:
        path, shape = f"{self.kind.item_path}/status", status.SHAPES[self.kind]
        endpoint = Endpoint("GET", path, 200, self.get, status.show, "status", response=shape, is_versioned=False)
        return (*super().endpoints(), endpoint)

    def post(self, call: Call) -> CreatedItem:
        hostports = self._check_hostports(call.body.hostports)
        creation = super().post(call)
        edges.close_tunnels(call.caller.account, hostports, by=call.change.by)
        return creation

    def patch(self, call: Call) -> Item:
        hostports = self._check_hostports(call.body.fields_set().get("hostports", []), call)
        edge = super().patch(call)
        edges.close_tunnels(call.caller.account, hostports, by=call.change.by)
        return edge

    def _check_hostports(self, hostports: list[str], call: Call | None = None) -> list[str]:
        """Return the hostports, or raise an error if an edge must not listen at one of them.

        `call` is the PATCH of an existing edge, or None for a new edge. An existing edge may keep hostports that
        TCP_PORTS now forbids. Raises InvalidRequest, NotFound and OtherSettingsError, and Conflict for a name that the
        operator reserves or bans.
        """
        if hostports:
            base_names.check_settings_for(hostport.rpartition(":")[0] for hostport in hostports)
        ban_patterns = bans.list_patterns() if hostports else []
        for index, hostport in enumerate(hostports):
            host, field = hostport.rpartition(":")[0], f"hostports.{index}"
            if base_names.is_operator_name(base_names.base_name(host)) or bans.matches(host, ban_patterns):
                raise Conflict(base_names.OPERATOR_NAME_MESSAGE.format(field), {field: base_names.OPERATOR_NAME_RULE})
            if (
                base_names.is_below(host)
                and not base_names.base_name(host)
                and (self.kind is not TCP_EDGES or "*" in host)
            ):
                raise InvalidRequest.of({field: f"must have a host below {base_names.domain()}"})
        closed_indexes = [index for index, hostport in enumerate(hostports) if self._is_closed(hostport)]
        stored = self.get(call).body.get("hostports", []) if closed_indexes and call else []
        if forbidden_indexes := [index for index in closed_indexes if hostports[index] not in stored]:
            rule = f"must have a port of {base_names.ports_text()}: no other port is open below {base_names.domain()}"
            raise InvalidRequest.of({f"hostports.{index}": rule for index in forbidden_indexes})
        return hostports

    def _is_closed(self, hostport: str) -> bool:
        """Return whether TCP_PORTS forbids TCP edges to listen at a hostport.

        That setting limits the ports of hosts below TUNNEL_DOMAIN.
        """
        host, _, port = hostport.rpartition(":")
        is_own = self.kind is TCP_EDGES and base_names.is_below(host)
        return is_own and bool(base_names.ports()) and int(port) not in base_names.ports()
