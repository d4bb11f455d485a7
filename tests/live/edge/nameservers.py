"""Name servers on addresses of the loopback, all at one port, with the answers that a test writes."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from dnslib import CAA, CNAME, NS, QTYPE, RCODE, RR, SOA, TXT, A, DNSRecord
from dnslib.server import BaseResolver, DNSError, DNSHandler, DNSLogger, DNSServer

_RDATA = {"A": A, "CAA": lambda text: CAA(*_caa(text)), "CNAME": CNAME, "NS": NS, "TXT": TXT}
Records = dict[tuple[str, str], list[str]]


@dataclass
class NameServer(BaseResolver):  # type: ignore[misc]
    """One name server. `records` are values by name and kind; `questions` what it was asked: name, kind, protocol."""

    address: str
    port: int = 0
    records: Records = field(default_factory=dict)
    rcode: str = "NOERROR"
    is_silent: bool = False
    is_authoritative: bool = True
    loses: int = 0  # so many questions
    truncates: bool = False
    zone: str = ""  # whose apex negative answers name
    questions: list[tuple[str, str, str]] = field(default_factory=list)
    recursions: int = 0  # how many of them wished for what the server does not know itself

    def resolve(self, request: DNSRecord, handler: DNSHandler) -> DNSRecord:
        name, kind = str(request.q.qname).removesuffix(".").lower(), QTYPE[request.q.qtype]
        self.questions.append((name, kind, handler.protocol))
        self.recursions += request.header.rd
        self.loses -= 1
        if self.is_silent or self.loses >= 0:
            raise DNSError("silence")
        reply = request.reply(aa=int(self.is_authoritative))
        reply.header.rcode = getattr(RCODE, self.rcode)
        if self.truncates and handler.protocol == "udp":
            reply.header.tc = 1
        elif self.rcode == "NOERROR":
            self._answer(reply, name, kind)
        return reply

    def _answer(self, reply: DNSRecord, name: str, kind: str) -> None:
        soa = SOA("ns.invalid", "hostmaster.invalid", (1, 60, 60, 60, 60))
        if kind == "SOA" and (name, "NS") in self.records:
            reply.add_answer(RR(name, QTYPE.SOA, rdata=soa))
            return
        aliases = self.records.get((name, "CNAME"), []) if kind != "CNAME" else []
        for alias in aliases:
            reply.add_answer(RR(name, QTYPE.CNAME, rdata=CNAME(alias)))
            self._answer(reply, alias.lower(), kind)
        for value in self.records.get((name, kind), []):
            parts = [value[at : at + 255] for at in range(0, max(len(value), 1), 255)]
            reply.add_answer(RR(name, getattr(QTYPE, kind), rdata=_RDATA[kind](parts if kind == "TXT" else value)))
        if not reply.rr:
            above = [zone for zone, kind in self.records if kind == "NS" and name.endswith(f".{zone}")]
            reply.add_auth(RR(max(above, key=len, default=self.zone), QTYPE.SOA, rdata=soa))


def _caa(text: str) -> tuple[int, str, str]:
    """Return flags, tag and value of a CAA record."""
    flags, tag, value = text.split(" ", 2)
    return int(flags), tag, value


@contextmanager
def serving(*servers: NameServer) -> Iterator[int]:
    """Serve over UDP and TCP; yield the port of all."""
    with ExitStack() as stack:
        port = _free_port([server.address for server in servers])
        for server in servers:
            server.port = port
            for tcp in (False, True):
                stack.enter_context(_listening(DNSServer(server, server.address, port, tcp, DNSLogger(logf=_ignore))))
        yield port


@contextmanager
def _listening(server: DNSServer) -> Iterator[None]:
    thread = threading.Thread(target=server.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.server.shutdown()
        thread.join()
        server.server.server_close()


def _free_port(addresses: list[str]) -> int:
    """Return a port that is free on all addresses for both protocols."""
    while True:
        with ExitStack() as probes:
            first = probes.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            first.bind((addresses[0], 0))
            port: int = first.getsockname()[1]
            try:
                for kind, address in (
                    (k, address) for k in (socket.SOCK_STREAM, socket.SOCK_DGRAM) for address in addresses
                ):
                    if (kind, address) != (socket.SOCK_DGRAM, addresses[0]):
                        probes.enter_context(socket.socket(socket.AF_INET, kind)).bind((address, port))
            except OSError:
                continue
            return port


def _ignore(_line: str) -> None: ...
