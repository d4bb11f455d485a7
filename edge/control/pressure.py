"""The share of Envoy's connection limits in use, written to the file that its overload manager reads."""

from edge.envoy.start import overload
from edge.envoy.start import stats as counts
from edge.process import files, metrics
from edge.process.settings import Settings
from edge.process.tasks import PeriodicTask

_PERIOD = 0.5  # seconds


def reset(settings: Settings) -> None:
    """Write 0 before Envoy starts."""
    _write(0.0, settings)


async def write_changes(settings: Settings) -> None:
    """Write the share whenever it changes, until cancelled."""
    read, written = metrics.read_from(settings.directory / counts.SOCKET, counts.CONNECTIONS), 0.0

    async def write_change() -> None:
        nonlocal written
        found = min(1.0, round(counts.compute_pressure((await read()).decode(), settings.limits), 2))
        if found != written:
            _write(found, settings)
            written = found

    await PeriodicTask("pressure", write_change, _PERIOD, failures=OSError).run()  # OSError: Envoy does not run yet


def _write(pressure: float, settings: Settings) -> None:
    files.replace(settings.directory / overload.PRESSURE, str(pressure).encode(), mode=0o640)
