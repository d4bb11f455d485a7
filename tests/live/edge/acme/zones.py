"""A name server's port for signed updates of TXT records (RFC 2136, RFC 8945)."""

import base64
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import dns.message
import dns.name
import dns.rcode
import dns.tsig
import dns.update

from tests.live.edge.nameservers import NameServer

KEY_NAME, SECRET = "updates", b"0123456789abcdef0123456789abcdef"


@dataclass
class UpdatedZone:
    """A zone whose TXT records on a name server can be updated. `added` are all records that it ever had."""

    zone: str
    server: NameServer
    port: int = 0
    added: list[tuple[str, str]] = field(default_factory=list)  # name and value

    @property
    def key(self) -> str:
        """Return the key as in ACME_DNS_KEY."""
        return f"{KEY_NAME}:hmac-sha256:{base64.b64encode(SECRET).decode()}"

    @property
    def records(self) -> dict[str, list[str]]:
        """Return the TXT records of the zone."""
        texts = [(name, values) for (name, kind), values in self.server.records.items() if kind == "TXT" and values]
        return {name: values for name, values in texts if name.endswith(f".{self.zone}")}

    def apply(self, wire: bytes) -> bytes:
        """Apply an update, and return the response. Updates without the key are refused."""
        try:
            update = dns.message.from_wire(wire, keyring={dns.name.from_text(KEY_NAME): _KEY})
        except dns.exception.DNSException:
            update = dns.message.from_wire(wire, keyring=False)
        reply = dns.message.make_response(update)
        if not isinstance(update, dns.update.UpdateMessage) or not update.had_tsig:
            reply.set_rcode(dns.rcode.NOTAUTH)
            return reply.to_wire()
        for rrset in update.update:
            name = rrset.name.to_text(omit_final_dot=True).lower()
            if rrset.deleting:
                self.server.records.pop((name, "TXT"), None)
            else:
                values = self.server.records.setdefault((name, "TXT"), [])
                new = [value for record in rrset if (value := record.strings[0].decode()) not in values]
                values.extend(new)
                self.added.extend((name, value) for value in new)
        return reply.to_wire()


_KEY = dns.tsig.Key(KEY_NAME, SECRET)


@contextmanager
def updated(zone: str, server: NameServer) -> Iterator[UpdatedZone]:
    """Accept updates over TCP."""
    updated_zone = UpdatedZone(zone, server)

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while len(head := self.rfile.read(2)) == 2:
                answer = updated_zone.apply(self.rfile.read(int.from_bytes(head)))
                self.wfile.write(len(answer).to_bytes(2) + answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as listening:
        listening.daemon_threads, listening.block_on_close = True, False
        updated_zone.port = listening.server_address[1]
        threading.Thread(target=listening.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield updated_zone
        finally:
            listening.shutdown()
