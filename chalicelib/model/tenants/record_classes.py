"""Classes of all stored records, and what the export and the deletion of an account do with them.

Every record belongs to exactly one class. A test compares the classes with the kinds and with docs/operations.md.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from chalicelib import ids
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import Kind
from chalicelib.storage.client.dynamodb import Condition

# "portable" records are exported and imported. "described" records are exported without their secret, and cannot be
# imported. "omitted" records are not exported, because they expire soon, or because another process creates them again.
Portability = Literal["portable", "described", "omitted"]
# What happens to a record when its account is deleted. "remove": the record is deleted. "trail": the record belongs to
# the audit trail, and can be kept. "name": the record makes a name unique, and only the cooldown of the name stays.
# "list": the record is a revocation list, and only its revocations stay. In the last two, a digest replaces the
# account's id. "shared": the record has data of several accounts. "none": nothing, because the record does not contain
# the id.
Removal = Literal["remove", "trail", "name", "list", "shared", "none"]
Record = Mapping[str, Any]

ACCOUNT = ids.pattern(kinds.ACCOUNTS.prefix).strip("^$")
_ANY_ID = "[^#]+"


class UnclassifiedRecord(Exception):
    """A record belongs to no record class. The message contains the record's primary key."""


@dataclass(frozen=True)
class RecordClass:
    """A class of records. `scope` and `id` are regular expressions for the primary keys of its records, with `A` for
    the id of an account.
    """

    name: str
    scope: str
    id: str = ".+"
    portability: Portability = "omitted"
    removal: Removal = "remove"

    def has(self, scope: str, id: str) -> bool:
        """Return whether the record with a primary key belongs to the class."""
        return self.has_scope(scope) and self._id.fullmatch(id) is not None

    def has_scope(self, scope: str) -> bool:
        """Return whether records with this partition key can belong to the class."""
        return self._scope.fullmatch(scope) is not None

    @cached_property
    def _scope(self) -> re.Pattern[str]:
        return _compile(self.scope)

    @cached_property
    def _id(self) -> re.Pattern[str]:
        return _compile(self.id)


# the kinds that are not "portable"
_NOT_PORTABLE: Mapping[Kind, Portability] = {
    kinds.API_KEYS: "described",  # the table stores digests of tokens, but no tokens
    kinds.TUNNELS: "omitted",  # the gateway of a tunnel would not serve an imported copy
}
PORTABILITY: Mapping[Kind, Portability] = {
    kind: _NOT_PORTABLE.get(kind, "portable") for kind in kinds.TABLE if kind.path and kind.stored
}


def _classify_kind(kind: Kind) -> RecordClass:
    path = re.sub(r"{\w+}", _ANY_ID, kind.path)
    removal: Removal = "trail" if kind is kinds.AUDIT_EVENTS else "remove"
    shards = "(/[0-9]+|/edge)?" if kind is kinds.AUDIT_EVENTS else "(/[0-9]+)?"
    return RecordClass(kind.noun, f"A#{path}{shards}", f"{kind.prefix}_.+", PORTABILITY[kind], removal)


CLASSES: tuple[RecordClass, ...] = (
    *(_classify_kind(kind) for kind in PORTABILITY),
    RecordClass("account", "accounts", "A", "portable"),
    RecordClass("route", "A#/edges/https/routes", "edghts_[^/]+/edghtsrt_.+", "portable"),
    RecordClass("marks of events", "A#/audit_events", "~.+", "portable", "trail"),
    RecordClass("marks of certificates", "A#/ssh_(host|user)_certificates", "~.+", "portable"),
    RecordClass("list of an owner's API keys", f"A#/audit_events/keys/{_ANY_ID}", ".+", "portable", "trail"),
    RecordClass("counts of names", "A#/names", "count", "portable"),
    RecordClass("cooldowns", "A#/names/cooldown", "[0-9]+", "portable"),
    RecordClass("usage", "A#/usage/[0-9-]+", ".+", "portable"),
    RecordClass("counts of requests", "A#/limits/.+"),
    RecordClass("counts of items", "A#/counts"),
    RecordClass("trials of edges", "A#/edge_trials"),
    RecordClass("errors of OAuth applications", "A#/oauth_errors"),
    RecordClass("idempotency keys", "A#/idempotency/.+", "request"),
    # The following records are unique keys: each makes a value unique, such as a name or public key.
    RecordClass("name of an account", "account_name#.+", "claim"),
    RecordClass("token", "token#.+", "claim"),
    RecordClass("federated credential's key", "federated#.+", "claim", "portable"),
    RecordClass("identity", "identity#A/.+", "claim", "portable"),
    RecordClass("public key", "public_key#.+", "claim", "portable"),
    RecordClass("name of a user or bot", "(user_name|name)#A#.+", "claim", "portable"),
    RecordClass("hostport", "hostports#(A/)?.+", "claim", "portable"),
    RecordClass("proved domain", "domain#.+", "claim", "portable"),
    RecordClass("reserved domain", "reserved_domain#A/.+", "claim", "portable"),
    RecordClass("name", "tunnel_name#.+", "claim", "portable", "name"),
    RecordClass("SSH authority's key", "ssh_authority#.+", "claim", "portable"),
    RecordClass("path of a route", "match#A#.+", "claim", "portable"),
    # The partitions of the following records contain records of several accounts.
    RecordClass("list of revocations", "krl#.+", "head", "portable", "list"),
    RecordClass("listed edge", "edge#/edges/[0-9]+", "edg[a-z]+_.+", "portable"),
    RecordClass("special names of an edge", "edge#/special/[0-9]+", "A/edg[a-z]+_.+", "portable"),
    RecordClass("special names of a tunnel", "edge#/special/[0-9]+", "A/tn_.+"),
    RecordClass("scheduled check of a domain's proof", "edge#/looks", "[0-9]+/A/.+", "portable"),
    RecordClass("proved domain below another domain", "edge#/proved/.+", ".+", "portable"),
    RecordClass("renewal", "edge#/renewals", "[0-9]+/A/.+", "portable"),
    RecordClass("unfinished order", "edge#/orders", "(.+/)?A/.+"),
    RecordClass("lost certificate", "edge#/revocations", "A/.+"),
    RecordClass("replaced certificate", "edge#/replaced", "[0-9]+/A/.+"),
    RecordClass("times of an account's certificate orders", "edge#/order_times", "account/A"),
    RecordClass("served name", "edge#/served_names/.+", "tn_.+", "portable", "trail"),
    RecordClass("left hostport", "edge#/left_hostports/.+", ".+", "portable", "trail"),
    RecordClass("status of an edge", "edge#/hosts/.+/statuses", "A/.+"),
    RecordClass("tunnel of a gateway", "edge#/gateways/.+/tunnels", "tn_.+"),
    RecordClass("session of a visitor", "session#.+", "session"),
    RecordClass("operator's event", "operator#/audit_events", "evt_.+", "omitted", "trail"),
    RecordClass("change log", "changes#[0-9]+", ".+", "omitted", "shared"),
    # The following records do not contain the id of an account. They belong to the service, or their primary key
    # contains the id of another record.
    RecordClass("denied requests of a key", "token#.+", "denied", "omitted", "none"),
    RecordClass("refusals of a federated credential", "federated#.+", "refused", "omitted", "none"),
    RecordClass("chunk of revocations", "krl#.+", "[0-9a-f]{2}", "portable", "none"),
    RecordClass("times of orders", "edge#/order_times", "all|(failed|issued|registered)/.+", "omitted", "none"),
    RecordClass("challenge", "acme_challenge#.+", ".+", "omitted", "none"),
    RecordClass("cached public keys of an issuer", "issuer#.+", "keys", "omitted", "none"),
    RecordClass("used token", "jti#.+", "claim", "omitted", "none"),
    RecordClass("keys of the sign-in service", "sign_in_keys", ".+", "omitted", "none"),
    RecordClass("key pair of the sign-in link", "edge_authority#hop", "claim", "omitted", "none"),
    RecordClass(
        "state of the service",
        "edge#/(authorities|banned_names|banned_patterns|blocked_networks|gateways|hosts|oauth_apps|settings|acme/.+|certificate)",
        ".+",
        "omitted",
        "none",
    ),
    RecordClass("imported account", "operator#/imports", "[0-9a-f]{64}"),
)


def classify(scope: str, id: str) -> RecordClass:
    """Return the class of the record with a primary key. Raises UnclassifiedRecord."""
    record_class = next((candidate for candidate in CLASSES if candidate.has(scope, id)), None)
    if record_class is None:
        raise UnclassifiedRecord(f"{scope} {id}")
    return record_class


def match_account(account: str) -> Condition:
    """Return the DynamoDB condition that a record contains the id of an account.

    Entries of the change log do not meet this condition, because they contain the account's id only inside lists.
    """
    texts = (
        "contains(#scope, :account)",
        "contains(#id, :account)",
        "begins_with(#home, :own)",
        "#account = :account",
        "#body.#account = :account",
        "contains(#body.#resource_id, :account)",
    )
    return Condition(" OR ".join(texts), {"account": account, "own": f"{account}#"})


def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\bA\b", ACCOUNT, pattern), re.DOTALL)
