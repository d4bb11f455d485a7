"""TXT records of challenges, by signed updates (RFC 2136, RFC 8945). Every method blocks."""

import dns.exception
import dns.name
import dns.query
import dns.rcode
import dns.tsig
import dns.update

from edge.issuer.attempts import AttemptFailed
from edge.issuer.issuer_settings import DnsSettings
from edge.issuer.rules import outcomes

_TIMEOUT = 5.0  # seconds for one update
_TTL = 1  # seconds: only the CA reads the record, once


class TxtRecords:
    """The TXT records of one zone."""

    def __init__(self, settings: DnsSettings) -> None:
        self._settings = settings
        self._keys = {dns.name.from_text(settings.key.name): dns.tsig.Key(settings.key.name, settings.key.secret)}

    def add(self, name: str, value: str) -> None:
        """Add a TXT record. The same value again changes nothing. Raises AttemptFailed."""
        update = self._update()
        update.add(dns.name.from_text(name), _TTL, "TXT", f'"{value}"')
        self._send(update)

    def remove(self, name: str) -> None:
        """Remove all TXT records of a name, if there are any. Raises AttemptFailed."""
        update = self._update()
        update.delete(dns.name.from_text(name), "TXT")
        self._send(update)

    def _update(self) -> dns.update.UpdateMessage:
        return dns.update.UpdateMessage(self._settings.zone, keyring=self._keys, keyalgorithm=dns.tsig.HMAC_SHA256)

    def _send(self, update: dns.update.UpdateMessage) -> None:
        """Send an update over TCP, because the answer must be of the server that was asked."""
        try:
            answer = dns.query.tcp(update, self._settings.host, timeout=_TIMEOUT, port=self._settings.port)
        except (dns.exception.DNSException, OSError, EOFError) as error:
            raise AttemptFailed(outcomes.internal(), f"the DNS server failed: {type(error).__name__}") from None
        if answer.rcode() != dns.rcode.NOERROR:
            reason = dns.rcode.to_text(answer.rcode())
            raise AttemptFailed(outcomes.internal(), f"the DNS server rejects updates: {reason}")
