"""Restarts Envoy if it has too many unanswered requests for certificates.

Envoy requests the certificate of each new server name from control. While control does not run, each server name that a
visitor invents takes some of Envoy's memory. Envoy 1.40 has no limit on that.
"""

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from edge.process import metrics
from edge.process.progress import Heartbeat
from edge.process.tasks import PeriodicTask

_PERIOD = 5.0  # seconds between two checks of Envoy
_MAX_SILENCE = 30.0  # seconds without a report of control after which Envoy may be restarted
_MAX_GROWTH = 50_000  # the most requests for certificates that Envoy may send while control is silent
_PATH = r"/stats/prometheus?filter=^.*on_demand_secret\.cert_active$"
_COUNT = re.compile(r"^\w*cert_active(?:\{[^}]*\})? (\d+)$", re.MULTILINE)


@dataclass
class RequestedCertificates:
    """Decides by the number of requested certificates whether Envoy must be restarted.

    `before` is how many certificates Envoy had requested when control was last seen running.
    """

    before: int = 0

    def is_too_many(self, silence: float, count: int) -> bool:
        """Return whether Envoy must be restarted.

        `silence` is the seconds since control last reported. `count` is how many certificates Envoy has requested and
        not dropped.
        """
        if silence < 2 * _PERIOD:
            self.before = count
        return silence > _MAX_SILENCE and count - self.before >= _MAX_GROWTH


def count_certificates(text: str) -> int:
    """Return how many certificates Envoy has requested and not dropped. `text` is Envoy's metrics."""
    return sum(map(int, _COUNT.findall(text)))


async def read_count(sockets: Mapping[str, Path]) -> int:
    """Return how many certificates all Envoy instances of this host have requested and not dropped."""
    return sum(count_certificates(text.decode()) for text in (await metrics.read_each(sockets, _PATH)).values())


async def guard(heartbeat: Heartbeat, sockets: Mapping[str, Path], restart: Callable[[], None]) -> None:
    """Check Envoy periodically until cancelled. Restart it if it has too many unanswered requests for certificates."""
    requested = RequestedCertificates()

    async def check() -> None:
        if requested.is_too_many(heartbeat.silence(), await read_count(sockets)):
            print(
                (
                    "Envoy is restarted: too many of its requests for certificates wait, because the control process "
                    "does not answer."
                ),
                file=sys.stderr,
            )
            restart()

    await PeriodicTask("envoy", check, _PERIOD).run()
