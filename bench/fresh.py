"""A figure in a process of its own: nothing that another one imported, opened or remembered is there."""

import importlib
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

from bench.engines import Setting
from bench.results import Result


def measured(name: str, setting: Setting) -> Result:
    """What a figure comes to; what it prints, the service's log among it, is thrown away."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), initializer=_silence) as pool:
        return pool.submit(_measure, name, setting).result()


def _silence() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _measure(name: str, setting: Setting) -> Result:
    figure = importlib.import_module(f"bench.{name}")
    result: Result = figure.measure(setting)
    return result
