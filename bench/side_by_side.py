"""Alternating measurement of several actions, so that other load affects all of them equally."""

import resource
import subprocess
import time
from collections.abc import Callable, Sequence
from random import Random
from statistics import median, quantiles

Action = Callable[[], object]
Clock = Callable[[], float]


def rounds(actions: Sequence[Action], count: int, clock: Clock = time.perf_counter) -> list[list[float]]:
    """Return the seconds of each action in each round.

    The order is random in every round, because an action that always came second would profit from filled caches.
    """
    taken: list[list[float]] = [[] for _ in actions]
    order = Random(count)
    for _ in range(count):
        for index in order.sample(range(len(actions)), len(actions)):
            before = clock()
            actions[index]()
            taken[index].append(clock() - before)
    return taken


def medians(actions: Sequence[Action], count: int, clock: Clock = time.perf_counter) -> list[float]:
    """Return the median seconds of each action, which include a usual share of occasional work."""
    return [median(taken) for taken in rounds(actions, count, clock)]


def lower_quartiles(actions: Sequence[Action], count: int) -> list[float]:
    """Return the lower quartile of each action's seconds.

    If two processes work for one answer, it is more stable than the median, which depends on other load.
    """
    return [quantiles(taken, n=4)[0] for taken in rounds(actions, count)]


def medians_of(actions: Sequence[Callable[[], float]], count: int) -> list[float]:
    """Return the median result of each action, called alternately."""
    answers: list[list[float]] = [[] for _ in actions]
    for _ in range(count):
        for index, action in enumerate(actions):
            answers[index].append(action())
    return [median(samples) for samples in answers]


def fresh_processes(commands: Sequence[Sequence[str]], count: int) -> tuple[list[float], list[float]]:
    """Return each command's least wall seconds and CPU seconds, because other processes can only add to them."""
    cpu: list[list[float]] = [[] for _ in commands]

    def run(index: int) -> None:
        before = cpu_of_children()
        subprocess.run(commands[index], check=True, stdout=subprocess.DEVNULL)
        cpu[index].append(cpu_of_children() - before)

    actions = [lambda index=index: run(index) for index in range(len(commands))]
    wall = rounds(actions, count)
    return [min(taken) for taken in wall], [min(taken) for taken in cpu]


def cpu_of_children() -> float:
    """Return the CPU seconds of all ended children of this process."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
