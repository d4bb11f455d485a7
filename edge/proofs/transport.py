"""Sends a question to one name server over UDP, and over TCP if the answer is truncated.

The owners of domains, who are strangers, decide what an answer contains. The size of an answer is checked before it is
parsed, because parsing 300 KiB takes a second.
"""

import asyncio
import struct

import dns.exception
import dns.flags
import dns.message
from dns.message import Message, QueryMessage
from dns.nameserver import Do53Nameserver

_MAX_BYTES, _MAX_RECORDS = 4096, 64
_HEADER = struct.Struct("!6H")


class AnswerTooLarge(dns.exception.FormError):
    """An answer has more than 4 KiB or 64 records, which no useful answer has."""


async def exchange(question: Message, address: str, port: int, within: float) -> Message:
    """Return a server's answer to a question. UDP and TCP each have `within` seconds.

    Raises OSError, EOFError and DNSException (Timeout if no answer arrives).
    """
    try:
        async with asyncio.timeout(within):
            answer = await _exchange_by_udp(question, address, port)
        if answer.flags & dns.flags.TC:
            async with asyncio.timeout(within):
                answer = await _exchange_by_tcp(question, address, port)
    except TimeoutError:
        raise dns.exception.Timeout from None
    return answer


class BoundedNameserver(Do53Nameserver):
    """A name server of a dnspython resolver. The name server rejects large answers before they are parsed."""

    async def async_query(
        self,
        request: QueryMessage,
        timeout: float,
        source: str | None,
        source_port: int,
        max_size: bool,
        backend: object,
        one_rr_per_rrset: bool = False,
        ignore_trailing: bool = False,
    ) -> Message:
        return await exchange(request, self.address, self.port, timeout)


class _Datagrams(asyncio.DatagramProtocol):
    """Puts the datagrams of a connected socket, and its errors, into a queue."""

    def __init__(self) -> None:
        self.received: asyncio.Queue[bytes | Exception] = asyncio.Queue()

    def datagram_received(self, data: bytes, address: object) -> None:
        self.received.put_nowait(data)

    def error_received(self, error: Exception) -> None:
        self.received.put_nowait(error)


async def _exchange_by_udp(question: Message, address: str, port: int) -> Message:
    connecting = asyncio.get_running_loop().create_datagram_endpoint(_Datagrams, remote_addr=(address, port))
    transport, protocol = await connecting
    try:
        transport.sendto(question.to_wire())
        while True:
            received = await protocol.received.get()
            if isinstance(received, Exception):
                raise received
            if answer := _parse(received, question):
                return answer
    finally:
        transport.abort()


async def _exchange_by_tcp(question: Message, address: str, port: int) -> Message:
    reader, writer = await asyncio.open_connection(address, port)
    try:
        wire = question.to_wire()
        writer.write(len(wire).to_bytes(2, "big") + wire)
        length = int.from_bytes(await reader.readexactly(2), "big")
        if length > _MAX_BYTES:
            raise AnswerTooLarge
        if answer := _parse(await reader.readexactly(length), question):
            return answer
        raise dns.exception.FormError
    finally:
        writer.transport.abort()


def _parse(wire: bytes, question: Message) -> Message | None:
    """Parse an answer. Return None if it is malformed or does not belong to the question. Raises TooMuch."""
    if len(wire) < _HEADER.size:
        return None
    id, _, _, *counts = _HEADER.unpack_from(wire)
    if id != question.id:
        return None
    if len(wire) > _MAX_BYTES or sum(counts) > _MAX_RECORDS:
        raise AnswerTooLarge
    try:
        answer = dns.message.from_wire(wire, ignore_trailing=True)
    except dns.exception.DNSException:
        return None
    return answer if question.is_response(answer) else None
