"""Timing of several actions alternately, so that what else the machine does disturbs all of them alike."""

import resource
import subprocess
import time
from collections.abc import Callable, Sequence
from random import Random
from statistics import median, quantiles

Action = Callable[[], object]
Clock = Callable[[], float]


def rounds(actions: Sequence[Action], count: int, clock: Clock = time.perf_counter) -> list[list[float]]:
    """Return the seconds that each action took in each round.

    The order is another one in every round: what always came second would find the engine's caches filled for it.
    """
    taken: list[list[float]] = [[] for _ in actions]
    order = Random(count)
    for _ in range(count):
        for place in order.sample(range(len(actions)), len(actions)):
            before = clock()
            actions[place]()
            taken[place].append(clock() - before)
    return taken


def medians(actions: Sequence[Action], count: int, clock: Clock = time.perf_counter) -> list[float]:
    """Return the median of the seconds of each action: it has its usual share of work that is done now and then."""
    return [median(taken) for taken in rounds(actions, count, clock)]


def lower_quartiles(actions: Sequence[Action], count: int) -> list[float]:
    """Return the lower quartile of the seconds of each action.

    Where two processes work for one answer, it comes out the same from run to run; medians follow what else runs.
    """
    return [quantiles(taken, n=4)[0] for taken in rounds(actions, count)]


def medians_of(actions: Sequence[Callable[[], float]], count: int) -> list[float]:
    """Return the median of what each action returns, called alternately."""
    answers: list[list[float]] = [[] for _ in actions]
    for _ in range(count):
        for place, action in enumerate(actions):
            answers[place].append(action())
    return [median(given) for given in answers]


def fresh_processes(commands: Sequence[Sequence[str]], count: int) -> tuple[list[float], list[float]]:
    """Return the least seconds that each command took by the clock, and the least CPU seconds.

    The least, since another process can only add to them.
    """
    cpu: list[list[float]] = [[] for _ in commands]

    def run(place: int) -> None:
        before = cpu_of_children()
        subprocess.run(commands[place], check=True, stdout=subprocess.DEVNULL)
        cpu[place].append(cpu_of_children() - before)

    actions = [lambda place=place: run(place) for place in range(len(commands))]
    wall = rounds(actions, count)
    return [min(taken) for taken in wall], [min(taken) for taken in cpu]


def cpu_of_children() -> float:
    """Return the CPU seconds of all processes that this one has started and awaited."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
