"""Writes TXT records of challenges by signed DNS updates (RFC 2136, RFC 8945). Every method blocks."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import dns.exception
import dns.name
import dns.query
import dns.rcode
import dns.tsig
import dns.update

from edge.issuer.attempts import AttemptFailed
from edge.issuer.issuer_settings import DnsSettings
from edge.issuer.rules import outcomes
from edge.proofs.servers import Unreachable

_TIMEOUT = 5.0  # timeout of one update in seconds
_PATIENCE, _PAUSE = 60.0, 1.0  # the most seconds until all name servers have a record, and seconds between checks
_TTL = 1  # TTL of the records in seconds: short, because the CA reads each record only once

FindWithout = Callable[[str, str], Coroutine[Any, Any, list[str]]]  # called with a name and a value. Raises Unreachable


class TxtRecords:
    """The TXT records of one zone. `find_without` returns the name servers of the zone that lack a record."""

    def __init__(self, settings: DnsSettings, find_without: FindWithout, *, patience: float = _PATIENCE) -> None:
        self._settings, self._find_without, self._patience = settings, find_without, patience
        self._keys = {dns.name.from_text(settings.key.name): dns.tsig.Key(settings.key.name, settings.key.secret)}

    def add(self, name: str, value: str) -> None:
        """Add a TXT record, and wait until all name servers return it. Raises AttemptFailed.

        Adding a value that exists changes nothing.
        """
        update = self._update()
        update.add(dns.name.from_text(name), _TTL, "TXT", f'"{value}"')
        self._send(update)
        until = time.monotonic() + self._patience
        while servers := self._list_without(name, value):
            if time.monotonic() >= until:
                reason = f"these name servers do not return the TXT record {name}: {', '.join(servers)}"
                raise AttemptFailed(outcomes.internal(), reason)
            time.sleep(_PAUSE)

    def remove(self, name: str) -> None:
        """Remove all TXT records of a name, if there are any. Raises AttemptFailed."""
        update = self._update()
        update.delete(dns.name.from_text(name), "TXT")
        self._send(update)

    def _list_without(self, name: str, value: str) -> list[str]:
        try:
            return asyncio.run(self._find_without(name, value))
        except Unreachable as error:
            raise AttemptFailed(outcomes.internal(), str(error)) from None

    def _update(self) -> dns.update.UpdateMessage:
        return dns.update.UpdateMessage(self._settings.zone, keyring=self._keys, keyalgorithm=dns.tsig.HMAC_SHA256)

    def _send(self, update: dns.update.UpdateMessage) -> None:
        """Send an update by TCP. Over UDP, another sender could forge the answer."""
        try:
            answer = dns.query.tcp(update, self._settings.host, timeout=_TIMEOUT, port=self._settings.port)
        except (dns.exception.DNSException, OSError, EOFError) as error:
            raise AttemptFailed(
                outcomes.internal(), f"an update of the DNS server in ACME_DNS_SERVER failed: {type(error).__name__}"
            ) from None
        if answer.rcode() != dns.rcode.NOERROR:
            reason = dns.rcode.to_text(answer.rcode())
            raise AttemptFailed(outcomes.internal(), f"the DNS server in ACME_DNS_SERVER rejects updates: {reason}")
