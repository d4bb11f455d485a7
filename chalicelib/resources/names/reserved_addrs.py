"""Reserved addresses: ports of the live edge that belong to one account."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import Call
from chalicelib.http.errors import Conflict
from chalicelib.http.resource import EditableResource, New, show_fields
from chalicelib.model.base import kinds
from chalicelib.model.names import base_names
from chalicelib.model.names.reservations import ReservedAddr
from chalicelib.resources.names.reserved_domains import Region
from chalicelib.schema.fields import DescribedShape, Shown
from chalicelib.schema.rules import if_null
from chalicelib.schema.shapes import ABSENT
from chalicelib.storage.records.items import Item


class Create(DescribedShape):
    region: Region = ""
    """Accepted but ignored; always empty in responses."""

    proxy_protocol: Annotated[bool, if_null(False)] = False
    """True: the upstream expects the PROXY protocol. It cannot be changed."""


class ReservedAddrShown(DescribedShape, Shown):
    """A port that belongs to the account, even while nothing listens there."""

    addr: str
    """The address, host:port."""

    region: str
    """Always empty: there is one region."""

    proxy_protocol: bool = ABSENT
    """True: the upstream expects the PROXY protocol; otherwise absent."""


def make(caller: Caller, id: str, request: Create) -> New:
    base_names.check_settings()
    if not (base_names.domain() and base_names.ports()):
        raise Conflict("No ports can be reserved here: the operator has not set TCP_PORTS.")
    addr = base_names.find_free_address(caller.account, [base_names.port_address(port) for port in base_names.ports()])
    if addr is None:
        raise Conflict("All ports of TCP_PORTS are reserved: delete a reserved address, or ask the operator for more.")
    values = {name: value for name, value in request.values().items() if name != "addr"}
    return New(ReservedAddr.of({**values, "addr": addr}))


def _build_responses(items: Sequence[Item], call: Call) -> Iterator[dict[str, Any]]:
    for item in items:
        response = show_fields(ReservedAddr, item, call)
        if not response["proxy_protocol"]:
            del response["proxy_protocol"]
        yield response


RESOURCE = EditableResource(
    kind=kinds.RESERVED_ADDRS,
    stored=ReservedAddr,
    create=Create,
    response=ReservedAddrShown,
    to_responses=_build_responses,
    make=make,
    errors={"POST": (Conflict,)},
)
