"""Searches for the account of a cold name: a name that is not loaded.

If the account has no loaded names either, the search also reads the account's records.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.serving.account_view import AccountView, Service
from chalicelib.storage.records.change_log import ItemKey
from edge.control.names.loading import AccountReader
from edge.control.names.reads import StoreReads
from edge.link.authority import KeyPair


@dataclass(frozen=True)
class SearchResult:
    """The account of a name, or "".

    `records` and `pairs` are the account's records and key pairs (by certificate id), if the search has read them.
    """

    account: str
    records: AccountRecords | None = None
    pairs: Mapping[str, KeyPair] = field(default_factory=dict)


class Searches:
    """Runs searches in threads. `is_loaded` returns whether an account's records are loaded already."""

    def __init__(
        self, reader: AccountReader, reads: StoreReads, tunnel_domain: str, is_loaded: Callable[[str], bool]
    ) -> None:
        self._reader, self._reads, self._domain, self._is_loaded = reader, reads, tunnel_domain, is_loaded
        self._changed: dict[str, set[ItemKey]] = {}  # keys of the records that changed since each name's search began
        self._claims: dict[str, str] = {}  # for each account: the name with a search that reads the account's records

    async def find(self, name: str) -> SearchResult:
        """Return the account of a name, with its records if they were read. Raises Unavailable."""
        changed = self._changed[name] = set[ItemKey]()
        try:
            result = await self._reads.for_visitor(self._read, name)
        finally:
            del self._changed[name]
            self._claims = {account: claim for account, claim in self._claims.items() if claim != name}
        is_stale = result.records and any(map(result.records.is_affected_by, changed))
        return replace(result, records=None) if is_stale else result

    def apply(self, item_keys: Iterable[ItemKey]) -> None:
        """Notify running searches of changed records, so that they return no outdated records."""
        for changed in self._changed.values():
            changed.update(item_keys)

    def _read(self, name: str) -> SearchResult:
        """Find the account of a name, and read its records and the key pair of its certificate. Blocks."""
        account = self._reader.find_account(name)
        if not account or self._is_loaded(account) or self._claims.setdefault(account, name) != name:
            return SearchResult(account)
        records, now = self._reader.read(account, name, None), datetime.fromtimestamp(time.time(), UTC)
        certificate = AccountView(records, Service(self._domain)).certificate(account, name, now)
        is_used = bool(records.edges or records.tunnels)
        if certificate is None or certificate not in records.certificates or not is_used:
            return SearchResult(account, records)
        pair = self._reader.key_pair(certificate, records)
        return SearchResult(account, records, {certificate: pair} if pair else {})
