"""Host names that the operator has banned. No tunnel can use a banned name."""

from chalicelib import clock
from chalicelib.model import changes
from chalicelib.model.audit import trail
from chalicelib.model.base.kinds import EDGE
from chalicelib.model.base.records import Created
from chalicelib.model.changes import Change
from chalicelib.model.names import base_names
from chalicelib.model.tunnels import tunnels
from chalicelib.storage.records import items, table
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.unique_keys import Taken, UniqueKey

SCOPE = items.scope(EDGE, "/banned_names")


def ban_name(name: str) -> None:
    """Ban a host name and end the tunnel that uses it. Raises aws.Unavailable."""
    body = Created(created_at=clock.rfc3339(clock.now())).to_record()
    item = Item(SCOPE, name, body, unique_keys=(UniqueKey(base_names.KIND, name, hold="over"),))
    ban = Change(trail.OPERATOR).put(item).add(trail.operator_event("name_ban.create", name))
    while True:
        try:
            ban.commit()
            return
        except Taken:
            if owner := table.look_up(base_names.KIND, name):
                tunnels.close_tunnel(owner["account"], owner["id"], by=trail.OPERATOR)


def lift_name_ban(name: str) -> bool:
    """Lift the ban of a host name. Return False if it is not banned. Raises aws.Unavailable."""
    return changes.delete(Change(trail.OPERATOR).add(trail.operator_event("name_ban.delete", name)), SCOPE, name)


def is_banned(name: str) -> bool:
    """Return whether the operator has banned a host name. Raises aws.Unavailable."""
    return table.find(SCOPE, name) is not None


def list_banned() -> list[str]:
    """Return all banned host names, sorted. Raises aws.Unavailable."""
    return sorted(item.id for item in table.read_all(SCOPE))
