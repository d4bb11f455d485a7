"""The pressure of connections on Envoy: read from its own counts, and written to the file that it acts on."""

import asyncio
from contextlib import suppress

from edge.process import files, metrics
from edge.process.settings import Settings
from edge.traffic import metrics as counts
from edge.traffic import overload

_PERIOD = 0.5  # seconds


def begin(settings: Settings) -> None:
    """Write that there is none, before Envoy starts."""
    _write(0.0, settings)


async def write_for_ever(settings: Settings) -> None:
    """Write the share of the permitted connections that are open, whenever it has changed."""
    read, written = metrics.read_from(settings.directory / counts.SOCKET, counts.CONNECTIONS), 0.0
    while True:
        await asyncio.sleep(_PERIOD)
        with suppress(OSError):  # Envoy is not there, or starts
            found = min(1.0, round(counts.pressure((await read()).decode(), settings.limits), 2))
            if found != written:
                _write(found, settings)
                written = found


def _write(pressure: float, settings: Settings) -> None:
    files.replace(settings.directory / overload.PRESSURE, str(pressure).encode(), mode=0o640)
