"""Measurement of a figure in a fresh process, without imports, connections or caches of other figures."""

import importlib
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

from bench.engines import Setting
from bench.results import Result
from infra.local import signals


def measure(name: str, setting: Setting) -> Result | BaseException:
    """Return the result of a figure, or its error. Its output, including the service's log, is dropped."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), initializer=_begin) as pool:
        try:
            measuring = pool.submit(_measure, name, setting)
            return measuring.exception() or measuring.result()
        except KeyboardInterrupt:
            for process in multiprocessing.active_children():  # else the pool would wait for the figure
                process.terminate()
            raise


def _begin() -> None:
    signals.interrupt()  # a terminated figure must end its own processes
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _measure(name: str, setting: Setting) -> Result:
    figure = importlib.import_module(f"bench.{name}")
    result: Result = figure.measure(setting)
    return result
