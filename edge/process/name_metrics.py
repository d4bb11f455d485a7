"""The metrics of loaded names: server names with resources in Envoy.

The metrics contain no names of accounts or visitors.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

_HELP = "See docs/edge-operations.md."
_SECONDS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 5)
RESULTS = ("served", "unserved", "closed", "rejected", "failed", "unavailable", "busy", "host", "account")
REASONS = ("invalid", "negative", "unavailable", "busy", "host_budget", "domain_budget")


class NameMetrics:
    """The number of loaded names and their memory, and the results of Envoy's requests for server names.

    All counters start at 0. If a counter appeared with its first request, Prometheus would not count this request.
    """

    def __init__(self, limit_bytes: int) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self.loaded = Gauge("edge_names_loaded", _HELP, registry=self._registry)
        self.loaded_bytes = Gauge("edge_names_loaded_bytes", _HELP, registry=self._registry)
        Gauge("edge_names_limit_bytes", _HELP, registry=self._registry).set(limit_bytes)
        self.special = Gauge("edge_names_special", _HELP, registry=self._registry)
        self.pending = Gauge("edge_secrets_pending", _HELP, registry=self._registry)
        self.loads = Counter("edge_name_loads", _HELP, ["result"], registry=self._registry)
        self.refusals = Counter("edge_names_refused", _HELP, ["reason"], registry=self._registry)
        self.seconds = Histogram("edge_name_load_seconds", _HELP, buckets=_SECONDS, registry=self._registry)
        for result in RESULTS:
            self.loads.labels(result)
        for reason in REASONS:
            self.refusals.labels(reason)

    def on_load(self, result: str, seconds: float) -> None:
        """Count one of Envoy's requests for a server name, by its result.

        For the result "served", also record the seconds until the answer.
        """
        self.loads.labels(result).inc()
        if result == "served":
            self.seconds.observe(seconds)

    def on_refusal(self, reason: str) -> None:
        """Count a request of Envoy that was refused without reading the name's records."""
        self.refusals.labels(reason).inc()

    async def read(self) -> bytes:
        """Return the metrics in Prometheus's text format."""
        return generate_latest(self._registry)
