"""The pressure of connections on Envoy: read from its counts and told to it, which does nothing with them by itself."""

import asyncio
from contextlib import suppress

from edge.process import files, metrics
from edge.process.settings import Settings
from edge.traffic import metrics as counts
from edge.traffic import overload

_PERIOD = 0.5  # seconds


def begin(settings: Settings) -> None:
    """Say that there is none, before Envoy starts."""
    _say(0.0, settings)


async def tell_for_ever(settings: Settings) -> None:
    """Say how many connections there are, beside how many there may be, whenever that has changed."""
    read, said = metrics.at(settings.directory / counts.SOCKET, counts.CONNECTIONS), 0.0
    while True:
        await asyncio.sleep(_PERIOD)
        with suppress(OSError):  # Envoy is not there, or starts
            found = min(1.0, round(counts.pressure((await read()).decode(), settings.limits), 2))
            if found != said:
                _say(found, settings)
                said = found


def _say(pressure: float, settings: Settings) -> None:
    files.replace(settings.directory / overload.PRESSURE, str(pressure).encode(), mode=0o640)
