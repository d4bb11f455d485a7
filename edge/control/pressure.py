"""Writes the used share of Envoy's connection limits to the file that Envoy's overload manager reads."""

from edge.envoy.start import overload
from edge.envoy.start import stats as counts
from edge.process import files, metrics
from edge.process.settings import STATS_SOCKET, Settings
from edge.process.tasks import PeriodicTask

_PERIOD = 0.5  # seconds between two reads of Envoy's connections


def reset(settings: Settings) -> None:
    """Write a share of 0 to the file, before Envoy starts."""
    _write(0.0, settings)


async def write_changes(settings: Settings) -> None:
    """Write the share whenever it changes, until cancelled. If two Envoys run, write the larger share."""
    sockets, written = settings.list_files(STATS_SOCKET), 0.0

    async def write_change() -> None:
        nonlocal written
        texts = await metrics.read_each(sockets, counts.CONNECTIONS)
        shares = [counts.compute_pressure(text.decode(), settings.limits) for text in texts.values()]
        share = min(1.0, round(max(shares, default=written), 2))
        if share != written:
            _write(share, settings)
            written = share

    await PeriodicTask("pressure", write_change, _PERIOD).run()


def _write(pressure: float, settings: Settings) -> None:
    files.replace(settings.directory / overload.PRESSURE, str(pressure).encode(), mode=0o640)
