"""Searches for the account of a name: what they read at once, and what a change meanwhile makes of it."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from chalicelib.model.serving.account_item_keys import StoredValue
from chalicelib.model.serving.account_records import AccountRecords
from chalicelib.model.tls.tls_certificates import ServedCertificate
from chalicelib.model.tunnels.tunnels import ServedTunnel
from chalicelib.storage.records.change_log import ItemKey
from edge.control.names.reads import StoreReads
from edge.control.names.searches import Searches, SearchResult
from edge.link.authority import KeyPair

A, NAME, OTHER = "acct_a", "x.tunnels.example", "y.tunnels.example"
TUNNEL = ServedTunnel(A, "tn_1", "gw-1", NAME, 0)
PLACE = ItemKey(f"{A}#/tunnels", "tn_1")
NOW = datetime.now(UTC)
CERTIFICATE = ServedCertificate(A, "cert_1", "chain", ("*.tunnels.example",), NOW - timedelta(1), NOW + timedelta(1))
PAIR = KeyPair("chain", "key")


_NOTHING: Mapping[str, Set[ItemKey]] = {}


class Reader:
    """An account with a tunnel at two names, and a certificate for them if `certificates` has it."""

    def __init__(self, *certificates: ServedCertificate) -> None:
        self.owner, self.reads = A, Counter[str]()
        self.certificates = {it.id: it for it in certificates}
        self.may_read, self.is_reading = threading.Event(), threading.Event()
        self.may_read.set()

    def find_account(self, host: str) -> str:
        owner = self.owner
        self._wait("find")
        return owner

    def read(self, account: str, host: str, records: AccountRecords | None) -> AccountRecords:
        self._wait("read")
        found = {PLACE: StoredValue("1", TUNNEL)}
        owned = AccountRecords(account, frozenset({host}), tunnels={TUNNEL.id: TUNNEL}, values=found)
        return replace(owned, certificates=self.certificates)

    def key_pair(self, certificate: str, records: AccountRecords) -> KeyPair | None:
        self._wait("key_pair")
        return PAIR

    def read_changed(
        self, records: AccountRecords, item_keys: Iterable[ItemKey], used: Mapping[str, Set[ItemKey]] = _NOTHING
    ) -> AccountRecords:
        return records

    def resync(self, records: AccountRecords) -> AccountRecords:
        return records

    def keep(self, records: AccountRecords, names: Iterable[str]) -> AccountRecords:
        return records

    def _wait(self, read: str) -> None:
        self.reads[read] += 1
        self.is_reading.set()
        assert self.may_read.wait(5)


def searches(reader: Reader, *loaded: str) -> Searches:
    return Searches(reader, StoreReads(), "tunnels.example", lambda account: account in loaded)


def test_a_search_reads_the_records_and_the_key_of_an_account_that_is_not_loaded() -> None:
    reader = Reader(CERTIFICATE)
    found = asyncio.run(searches(reader).find(NAME))
    assert (found.account, found.records, found.pairs) == (A, reader.read(A, NAME, None), {"cert_1": PAIR})
    assert asyncio.run(searches(reader, A).find(NAME)) == SearchResult(A)
    without = asyncio.run(searches(other := Reader()).find(NAME))
    assert (without.records is not None, without.pairs, other.reads["key_pair"]) == (True, {}, 0)


def test_an_unknown_name_takes_one_read() -> None:
    reader = Reader()
    reader.owner = ""
    assert (asyncio.run(searches(reader).find(NAME)), reader.reads) == (SearchResult(""), {"find": 1})


@pytest.mark.parametrize(("changed", "is_kept"), [(PLACE, False), (ItemKey("acct_b#/tunnels", "tn_2"), True)])
def test_records_that_changed_during_the_search_are_dropped(changed: ItemKey, is_kept: bool) -> None:
    async def run() -> SearchResult:
        reader.may_read.clear()
        search = asyncio.create_task(made.find(NAME))
        await asyncio.to_thread(reader.is_reading.wait, 5)
        made.apply([changed])
        reader.may_read.set()
        return await search

    made = searches(reader := Reader(CERTIFICATE))
    found = asyncio.run(run())
    assert (found.account, found.records is not None) == (A, is_kept)


def test_two_names_of_an_account_read_its_records_once() -> None:
    class Slow(Reader):
        def find_account(self, host: str) -> str:
            self.reads["find"] += 1
            return A

    async def run() -> list[SearchResult]:
        reader.may_read.clear()
        first = asyncio.create_task(made.find(NAME))
        await asyncio.to_thread(reader.is_reading.wait, 5)
        second = await made.find(OTHER)
        reader.may_read.set()
        return [await first, second]

    made = searches(reader := Slow())
    found = asyncio.run(run())
    assert [(it.account, it.records is not None) for it in found] == [(A, True), (A, False)]
    assert reader.reads == {"find": 2, "read": 1}
