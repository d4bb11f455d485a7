"""Restarts an Envoy that collects unanswered requests for certificates while control is away.

Each server name that a visitor invents then leaves some memory in Envoy until control answers. Envoy 1.40 has no bound.
"""

import re
import sys
from dataclasses import dataclass

from edge.process import metrics
from edge.process.children import Child
from edge.process.progress import Heartbeat
from edge.process.settings import STATS_SOCKET, Settings
from edge.process.tasks import PeriodicTask

_PERIOD = 5.0  # seconds between two checks
_MAX_SILENCE = 30.0  # seconds for which control may be away
_MAX_GROWTH = 50_000  # additional requested certificates during that time
_PATH = r"/stats/prometheus?filter=^.*on_demand_secret\.cert_active$"
_COUNT = re.compile(r"^\w*cert_active(?:\{[^}]*\})? (\d+)$", re.MULTILINE)


@dataclass
class RequestedCertificates:
    """The certificates that Envoy has requested, before and while control is away."""

    before: int = 0

    def is_too_many(self, silence: float, count: int) -> bool:
        """Return whether Envoy must be restarted, after `silence` seconds without control."""
        if silence < 2 * _PERIOD:
            self.before = count
        return silence > _MAX_SILENCE and count - self.before >= _MAX_GROWTH


def count_certificates(text: str) -> int:
    """Return how many certificates Envoy has requested and not dropped, from its metrics."""
    return sum(map(int, _COUNT.findall(text)))


async def read_count(settings: Settings) -> int:
    """Return how many certificates Envoy has requested and not dropped. Raises OSError."""
    return count_certificates((await metrics.read_from(settings.directory / STATS_SOCKET, _PATH)()).decode())


async def guard(settings: Settings, heartbeat: Heartbeat, envoy: Child) -> None:
    """Check Envoy regularly and restart it if required, until cancelled."""
    requested = RequestedCertificates()

    async def check() -> None:
        if requested.is_too_many(heartbeat.silence(), await read_count(settings)):
            print(
                "Control does not answer, and Envoy collects requests for certificates: Envoy is restarted.",
                file=sys.stderr,
            )
            envoy.restart()

    await PeriodicTask("envoy", check, _PERIOD, failures=OSError).run()  # OSError: Envoy does not run
