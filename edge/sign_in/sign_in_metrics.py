"""The metrics of the sign-in service. They contain no names of accounts or visitors."""

import time
from email.utils import parsedate_to_datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from edge.sign_in.provider.provider_table import PROVIDERS

_HELP = "See docs/edge-operations.md."
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
SIGN_INS = ("passed", "rejected", "silent", "unreadable", "application")
CHECKS = ("renewed", "ended", "silent", "unreadable", "application")


class SignInMetrics:
    """Counts of sign-ins, of checks at providers, and of renewed session tokens.

    All counters exist from the start with the value 0. Prometheus would not count the first event of a counter that
    appears only with this event.
    """

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        labels = ["provider", "outcome"]
        self._sign_ins = Counter("edge_oauth_sign_ins", _HELP, labels, registry=self._registry)
        self._checks = Counter("edge_oauth_rechecks", _HELP, ["outcome"], registry=self._registry)
        self._seconds = Histogram("edge_oauth_sign_in_seconds", _HELP, buckets=_SECONDS, registry=self._registry)
        self._renewed = Counter("edge_oauth_sessions_renewed", _HELP, registry=self._registry)
        self._clock = Gauge("edge_oauth_clock_seconds", _HELP, registry=self._registry)
        for provider in PROVIDERS:
            for outcome in SIGN_INS:
                self._sign_ins.labels(provider, outcome)
        for outcome in CHECKS:
            self._checks.labels(outcome)

    def on_sign_in(self, provider: str, outcome: str, seconds: float) -> None:
        """Count a completed or failed sign-in, with the seconds that the exchange with the provider took."""
        self._sign_ins.labels(provider, outcome).inc()
        self._seconds.observe(seconds)

    def on_check(self, outcome: str) -> None:
        """Count a check of a session at its provider."""
        self._checks.labels(outcome).inc()

    def on_renewal(self) -> None:
        """Count a new session token for an existing session."""
        self._renewed.inc()

    def on_date(self, date: str) -> None:
        """Record the difference between this host's clock and the Date header of a provider's answer."""
        try:
            self._clock.set(time.time() - parsedate_to_datetime(date).timestamp())
        except ValueError:
            return

    async def read(self) -> bytes:
        """Return the metrics in Prometheus's text format."""
        return generate_latest(self._registry)
