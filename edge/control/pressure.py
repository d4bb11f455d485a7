"""The share of Envoy's connection limits in use, written to the file that its overload manager reads."""

import asyncio
from contextlib import suppress

from edge.envoy.start import overload
from edge.envoy.start import stats as counts
from edge.process import files, metrics
from edge.process.settings import Settings

_PERIOD = 0.5  # seconds


def reset(settings: Settings) -> None:
    """Write 0 before Envoy starts."""
    _write(0.0, settings)


async def write_changes(settings: Settings) -> None:
    """Write the share whenever it changes, until cancelled."""
    read, written = metrics.read_from(settings.directory / counts.SOCKET, counts.CONNECTIONS), 0.0
    while True:
        await asyncio.sleep(_PERIOD)
        with suppress(OSError):  # Envoy is not running yet
            found = min(1.0, round(counts.compute_pressure((await read()).decode(), settings.limits), 2))
            if found != written:
                _write(found, settings)
                written = found


def _write(pressure: float, settings: Settings) -> None:
    files.replace(settings.directory / overload.PRESSURE, str(pressure).encode(), mode=0o640)
