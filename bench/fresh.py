"""A figure in a process of its own: nothing that another one imported, opened or remembered is there."""

import importlib
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

from bench.engines import Setting
from bench.results import Result
from infra.local import signals


def measured(name: str, setting: Setting) -> Result | BaseException:
    """Return the result of a figure, or the error it failed with. Its output, with the service's log, is dropped."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), initializer=_begin) as pool:
        try:
            measuring = pool.submit(_measure, name, setting)
            return measuring.exception() or measuring.result()
        except KeyboardInterrupt:
            for process in multiprocessing.active_children():  # for whose last figure the pool would wait
                process.terminate()
            raise


def _begin() -> None:
    signals.interrupt()  # a figure that is ended ends what it has started
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _measure(name: str, setting: Setting) -> Result:
    figure = importlib.import_module(f"bench.{name}")
    result: Result = figure.measure(setting)
    return result
