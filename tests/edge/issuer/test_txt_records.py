"""TXT records by signed updates, at a name server of the test."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import dns.message
import dns.name
import dns.rcode
import dns.rdataclass
import dns.tsig
import dns.update
import pytest

from edge.issuer.attempts import AttemptFailed
from edge.issuer.issuer_settings import DnsSettings, TsigKey
from edge.issuer.txt_records import TxtRecords

ZONE, NAME = "acme.example.com", "label.acme.example.com"
KEY = TsigKey("updates", b"0123456789abcdef")


class Server:
    """A name server that applies signed updates of TXT records, and rejects all others."""

    def __init__(self) -> None:
        self.records: dict[str, set[str]] = {}
        self.lookups, self.delay = 0, 0  # lookups without the record
        self._keys = {dns.name.from_text(KEY.name): dns.tsig.Key(KEY.name, KEY.secret)}

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length = int.from_bytes(await reader.readexactly(2))
        wire = await reader.readexactly(length)
        try:
            update = dns.message.from_wire(wire, keyring=self._keys)
        except dns.exception.DNSException:
            update = dns.message.from_wire(wire, keyring=False)
            reply = dns.message.make_response(update)
            reply.set_rcode(dns.rcode.NOTAUTH)
        else:
            assert isinstance(update, dns.update.UpdateMessage)
            assert update.had_tsig
            self._apply(update)
            reply = dns.message.make_response(update)
        answer = reply.to_wire()
        writer.write(len(answer).to_bytes(2) + answer)
        await writer.drain()
        writer.close()

    def _apply(self, update: dns.update.UpdateMessage) -> None:
        for rrset in update.update:
            name = rrset.name.to_text(omit_final_dot=True)
            if rrset.deleting:
                self.records.pop(name, None)
            else:
                self.records.setdefault(name, set()).update(record.strings[0].decode() for record in rrset)


@asynccontextmanager
async def serve(key: TsigKey = KEY) -> AsyncIterator[tuple[Server, TxtRecords]]:
    server = Server()
    listening = await asyncio.start_server(server.answer, "127.0.0.1", 0)
    async with listening:
        port = listening.sockets[0].getsockname()[1]

        async def find_without(name: str, value: str) -> list[str]:
            server.lookups += 1
            is_visible = value in server.records.get(name, ()) and server.lookups > server.delay
            return [] if is_visible else ["192.0.2.1"]

        yield server, TxtRecords(DnsSettings(ZONE, "127.0.0.1", port, key), find_without, patience=0.5)


def test_a_record_is_added_and_removed() -> None:
    async def change() -> None:
        async with serve() as (server, records):
            for _ in range(2):
                await asyncio.to_thread(records.add, NAME, "first")
            assert server.records == {NAME: {"first"}}
            for _ in range(2):
                await asyncio.to_thread(records.remove, NAME)
            assert server.records == {}

    asyncio.run(change())


def test_an_update_with_another_key_fails_for_the_operator() -> None:
    async def change() -> None:
        async with serve(TsigKey("updates", b"another")) as (server, records):
            with pytest.raises(AttemptFailed) as error:
                await asyncio.to_thread(records.add, NAME, "first")
            assert error.value.failure.code == "internal"
            assert server.records == {}

    asyncio.run(change())


def test_an_absent_server_fails_for_the_operator() -> None:
    async def change() -> None:
        async with serve() as (_, records):
            pass
        with pytest.raises(AttemptFailed) as error:
            await asyncio.to_thread(records.remove, NAME)
        assert (error.value.failure.code, str(error.value)) == (
            "internal",
            "an update of the DNS server in ACME_DNS_SERVER failed: ConnectionRefusedError",
        )

    asyncio.run(change())


def test_a_record_that_a_name_server_does_not_return_in_time_fails_for_the_operator() -> None:
    async def change() -> None:
        async with serve() as (server, records):
            server.delay = 1
            await asyncio.to_thread(records.add, NAME, "first")
            assert server.lookups == 2
            server.delay = 100
            with pytest.raises(AttemptFailed) as error:
                await asyncio.to_thread(records.add, NAME, "second")
            assert (error.value.failure.code, error.value.reason) == (
                "internal",
                f"these name servers do not return the TXT record {NAME}: 192.0.2.1",
            )

    asyncio.run(change())
