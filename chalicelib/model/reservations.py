"""Reserved domains and addresses: names that stay an account's, online or not."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from random import SystemRandom
from typing import Any

from chalicelib import clock
from chalicelib.model import names
from chalicelib.model.proofs import Proof
from chalicelib.model.records import Described, References
from chalicelib.storage import dynamodb, items, unique_keys
from chalicelib.storage.items import Item
from chalicelib.storage.unique_keys import UniqueKey

_AT_ONCE = 100  # ports in one read


@dataclass(frozen=True, kw_only=True)
class ReservedDomain(Described):
    """The stored form of a reserved domain. `proof` is that of `proofs`, empty below TUNNEL_DOMAIN."""

    domain: str
    region: str = ""
    certificate_id: str = ""
    certificate_management_policy: None = None
    resolves_to: list[str] = field(default_factory=list)
    proxy_protocol: bool = False
    proof: Mapping[str, Any] = field(default_factory=dict)

    def references(self) -> References:
        return {"certificate_id": [self.certificate_id] if self.certificate_id else []}

    def unique_keys(self, account: str, id: str) -> tuple[UniqueKey, ...]:
        """Return the domain in its account, and the name, or the domain in the whole service once it is proved."""
        own = UniqueKey("reserved_domain", f"{account}/{self.domain}", field="domain")
        if not self.proof:
            unit = names.unit(self.domain)
            return (own, names.key(unit, field="domain")) if unit else (own,)
        proved = UniqueKey("domain", self.domain, {"account": account, "id": id})
        return (own, proved) if Proof(**self.proof).holds else (own,)


@dataclass(frozen=True, kw_only=True)
class ReservedAddr(Described):
    """The stored form of a reserved address, host:port."""

    addr: str
    region: str = ""
    proxy_protocol: bool = False

    def unique_keys(self, account: str, id: str) -> tuple[UniqueKey, ...]:
        return (names.key(self.addr, field="addr"),)


def with_proof(item: Item, proof: Proof) -> Item:
    """Return the next state of a reserved domain, with a proof and the key that goes with it."""
    stored = replace(ReservedDomain.of(item.body), proof=asdict(proof))
    keys = stored.unique_keys(item.account, item.id)
    return replace(item, body=stored.to_record(), unique_keys=keys, revision=items.following(item))


def resting(item: Item) -> Item:
    """Return a reservation whose name stays its account's for a day after it is deleted."""
    keys = (replace(key, rests=names.RESTS if key.kind == names.KIND else 0) for key in item.unique_keys)
    return replace(item, unique_keys=tuple(keys))


def free_port(account: str) -> int | None:
    """Return a port that the account can have now, by chance; None where there is none. Raises aws.Unavailable."""
    ports = SystemRandom().sample(names.ports(), len(names.ports()))
    for start in range(0, len(ports), _AT_ONCE):
        some = ports[start : start + _AT_ONCE]
        keys = [(f"{names.KIND}#{names.address(port)}", unique_keys.ID) for port in some]
        records = dynamodb.get_each(*keys)
        for port, record in zip(some, records, strict=True):
            if _is_free(record, account):
                return port
    return None


def _is_free(record: Mapping[str, Any] | None, account: str) -> bool:
    if record is None:
        return True
    is_held = "holder" in record or "sharers" in record
    return not is_held and (record.get("account") == account or record.get("rests", 0) <= clock.seconds())
