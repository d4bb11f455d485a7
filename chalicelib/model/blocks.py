"""Networks that the operator has blocked: nobody from there signs in at a gateway, and no edge host answers them."""

import ipaddress
from dataclasses import dataclass

from chalicelib import clock
from chalicelib.model import audit, changes
from chalicelib.model.changes import Change
from chalicelib.model.kinds import EDGE
from chalicelib.model.records import Created
from chalicelib.storage import items, table
from chalicelib.storage.dynamodb import Write
from chalicelib.storage.items import Item

_SCOPE = items.scope(EDGE, "/blocked_networks")
_LEAST = {4: 8, 6: 19}  # bits: of less the operator would lock out the internet by a slip


@dataclass(frozen=True, kw_only=True)
class Block(Created):
    """The stored form of a block."""

    reason: str = ""


def normal(text: str) -> str:
    """Return a network, or an address as the network of one, in its normal form. Raises ValueError."""
    try:
        found = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError("is not a network, for example 192.0.2.0/24 or 2001:db8::/32") from None
    if found.prefixlen < _LEAST[found.version]:
        raise ValueError(f"is larger than a /{_LEAST[found.version]}")
    return str(found)


def block(network: str) -> None:
    """Block a network in its normal form, with an event in the operator's trail. Raises aws.Unavailable."""
    body = Block(created_at=clock.rfc3339(clock.now()), reason=audit.reason()).to_record()
    record = Item(_SCOPE, network, body).to_record()
    Change(audit.OPERATOR).also(Write.put(record), audit.told("network_block.create", network)).commit()


def unblock(network: str) -> bool:
    """Lift the block of a network; False where there is none. Raises aws.Unavailable."""
    change = Change(audit.OPERATOR).also(audit.told("network_block.delete", network))
    return changes.delete(change, _SCOPE, network)


def every() -> list[tuple[str, Block]]:
    """Return all blocked networks with their blocks. One query. Raises aws.Unavailable."""
    return [(item.id, Block.of(item.body)) for item in sorted(table.newest(_SCOPE), key=lambda item: item.id)]
