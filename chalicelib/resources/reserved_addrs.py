"""Reserved addresses: a port of the live edge that stays the account's."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import Call
from chalicelib.http.errors import Conflict
from chalicelib.http.resource import EditableResource, New, plain
from chalicelib.model import kinds, names, reservations
from chalicelib.model.reservations import ReservedAddr
from chalicelib.resources.reserved_domains import Region
from chalicelib.schema.fields import Described, Shown
from chalicelib.schema.rules import if_null
from chalicelib.schema.shapes import ABSENT
from chalicelib.storage.items import Item


class Create(Described):
    region: Region = ""
    """Accepted for clients that send it; the answer is always empty."""

    proxy_protocol: Annotated[bool, if_null(False)] = False
    """True: what answers behind it reads the PROXY protocol first. It cannot be changed."""


class ReservedAddrShown(Described, Shown):
    """A port that stays the account's, whether something answers there or not."""

    addr: str
    """The address, host:port."""

    region: str
    """Empty: one region has all."""

    proxy_protocol: bool = ABSENT
    """Present where true: what answers behind it reads the PROXY protocol first."""


def make(caller: Caller, id: str, request: Create) -> New:
    names.check_settings()
    if not (names.domain() and names.ports()):
        raise Conflict("No ports can be reserved here: the operator has set none aside (TCP_PORTS).")
    addr = reservations.find_free_address(caller.account, [names.port_address(port) for port in names.ports()])
    if addr is None:
        raise Conflict("All ports are reserved: none is left.")
    values = {name: value for name, value in request.values().items() if name != "addr"}
    return New(ReservedAddr.of({**values, "addr": addr}))


def _responses(found: Sequence[Item], call: Call) -> Iterator[dict[str, Any]]:
    for item in found:
        shown = plain(ReservedAddr, item, call)
        if not shown["proxy_protocol"]:
            del shown["proxy_protocol"]
        yield shown


RESOURCE = EditableResource(
    kind=kinds.RESERVED_ADDRS,
    stored=ReservedAddr,
    create=Create,
    response=ReservedAddrShown,
    to_responses=_responses,
    make=make,
    errors={"POST": (Conflict,)},
)
