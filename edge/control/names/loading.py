"""The interfaces for loading names: reading records, building resources, sending them to Envoy."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.storage.records.change_log import ItemKey
from edge.control.names.gateway_users import GatewayUsers
from edge.control.names.reads import StoreReads
from edge.link.authority import KeyPair
from edge.plan.cold_reads import Answers
from edge.plan.loaded import Bounds, LoadedNames
from edge.plan.names import NamePlan
from edge.process.settings import Limits
from edge.serving.order import NameResources, Rejection

# Outcomes of loading a name. "unserved": no edge or tunnel serves the name. "closed": its edge refuses handshakes.
# "host" and "account": the name would exceed a memory bound. "busy": too many names of the account wait.
Outcome: TypeAlias = Literal[
    "served", "unserved", "closed", "rejected", "failed", "unavailable", "busy", "host", "account"
]
# After these outcomes, the next request loads the name again.
TEMPORARY_OUTCOMES: tuple[Outcome, ...] = "unavailable", "busy"
_DRAIN = 120.0  # seconds for which Envoy drains a listener
Answer: TypeAlias = Callable[[str, str, Outcome, KeyPair | None], Awaitable[None]]


@dataclass(frozen=True)
class Request:
    """A name that is being loaded.

    The loading began at the monotonic time `since`. `server_names` has the spellings that visitors use.
    """

    since: float
    server_names: set[str]


class AccountReader(Protocol):
    """Reads the records of accounts. All methods except `keep` block, and raise Unavailable."""

    def find_account(self, host: str) -> str: ...

    def read(self, account: str, host: str, records: AccountRecords | None) -> AccountRecords: ...

    def read_changed(
        self, records: AccountRecords, item_keys: Iterable[ItemKey], used: Mapping[str, Set[ItemKey]] = ...
    ) -> AccountRecords: ...

    def resync(self, records: AccountRecords) -> AccountRecords: ...

    def keep(self, records: AccountRecords, names: Iterable[str]) -> AccountRecords: ...

    def key_pair(self, certificate: str, records: AccountRecords) -> KeyPair | None: ...


class NameBuilder(Protocol):
    """Plans names, and builds the resources for the plans. Without a `pair`, no secret is built. Raises ValueError."""

    def plan(self, name: str, records: AccountRecords, now: datetime) -> NamePlan: ...

    def build(self, plan: NamePlan, records: AccountRecords, pair: KeyPair | None) -> NameResources: ...

    def build_certificate(self, server_name: str, pair: KeyPair) -> NameResources: ...

    def operator_pair(self) -> KeyPair: ...


class NameSender(Protocol):
    """Sends names to Envoy, as `edge.serving.order.Sender` does."""

    async def send(self, resources: NameResources) -> Rejection | None: ...

    async def refuse(self, names: Iterable[str]) -> None: ...

    async def withdraw(self, names: Iterable[str]) -> None: ...

    async def remove_secrets(self, names: Iterable[str]) -> None: ...

    async def remove_scopes(self, names: Iterable[str]) -> None: ...


@dataclass(frozen=True)
class NameErrors:
    """Envoy's errors about a name. `refusal` is the reason if the name is not served because of an error.

    After an error about routes, the previous routes are served, or a page if the new routes restrict visitors.
    """

    refusal: str = ""
    routes: str = ""
    certificates: Mapping[str, str] = field(default_factory=dict)


Report: TypeAlias = Callable[[NamePlan, NameErrors], None]


@dataclass(frozen=True)
class Loading:
    """The objects that all accounts share.

    `report` receives Envoy's errors about a plan, and an empty NameErrors when the name is unloaded. `answer` receives
    each wanted name, its account, the outcome and the key pair of the name, and answers the visitors. `pages` are the
    server names for which Envoy has only a certificate. A resync is a read of all records of an account, every
    `resync_period` seconds. `missed` has the primary keys of changed records that a resync found, but the change log
    has not reported.
    """

    reader: AccountReader
    builder: NameBuilder
    sender: NameSender
    reads: StoreReads
    loaded: LoadedNames
    pages: Answers
    missed: set[ItemKey]
    report: Report
    answer: Answer
    resync_period: float
    gateway_users: GatewayUsers = field(default_factory=GatewayUsers)


def find_bounds(limits: Limits) -> Bounds:
    """Return the bounds on the memory, number and lifetime of loaded names."""
    scope_lifetime = limits.max_connection_duration + _DRAIN
    max_names = limits.max_loaded_names_per_account, limits.max_loaded_names_per_wildcard
    return Bounds(limits.max_loaded_mib << 10, *max_names, limits.name_period, scope_lifetime)
