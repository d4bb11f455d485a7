"""The log of changes, followed by a reader whose clock and store are not those of the writers."""

import random
from dataclasses import dataclass, field

import pytest

from chalicelib.storage.records.change_log import Change, Place
from edge.store.changes import OVERLAP, Follower
from tests.edge.memory import Memory


@dataclass
class Log(Memory):
    """A log whose changes a test stamps; `since` notes from where it was read."""

    since: list[float] = field(default_factory=list)

    def write(self, at: float, id: str = "x") -> None:
        self.log.append(Change(f"{int(at * 1000):013}-{id}", (Place("acct_a#/tunnels", id),)))

    def list_changes(self, since: float) -> list[Change]:
        self.since.append(since)
        return super().list_changes(since)


def ids(changes: list[Change]) -> list[str]:
    return [place.id for change in changes for place in change.places]


def test_each_change_is_told_once() -> None:
    log = Log()
    follower = Follower(log, 1000)
    log.write(999, "before")
    log.write(1001, "a")
    assert ids(follower.read(1001)) == ["before", "a"]
    log.write(1002, "b")
    assert ids(follower.read(1002)) == ["b"]
    assert [ids(follower.read(1002 + number)) for number in range(1, 200)] == [[]] * 199


@pytest.mark.parametrize(("late", "within"), [(0.0, 1), (5.0, 1), (9.0, 1), (31.0, 5), (54.0, 5)])
def test_what_was_stamped_early_and_written_late_is_told(late: float, within: int) -> None:
    log = Log()
    follower = Follower(log, 1000)
    for number in range(1, 8):
        follower.read(1000 + 0.4 * number)
    log.write(1002.8 - late, "late")
    assert any(ids(follower.read(1003.2 + 0.4 * number)) == ["late"] for number in range(within))


def test_one_reading_of_five_goes_back_a_minute_and_the_others_ten_seconds() -> None:
    log = Log()
    follower = Follower(log, 1000)
    for number in range(1, 8):
        follower.read(1000 + number)
    assert OVERLAP == 60
    assert log.since == [940, 991, 992, 993, 994, 941, 996]


def test_a_reader_that_was_away_reads_all_that_it_has_missed() -> None:
    log = Log()
    follower = Follower(log, 1000)
    follower.read(1001)
    log.write(1100, "a")
    log.write(3000, "b")
    assert ids(follower.read(3600)) == ["a", "b"]


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_missed_where_clocks_are_five_seconds_apart_and_writers_slow(seed: int) -> None:
    chance = random.Random(seed)
    log, now, written = Log(), 1000.0, []
    followers = [Follower(log, now + skew) for skew in (-2.5, 2.5)]
    heard: list[list[str]] = [[], []]
    pending: list[tuple[float, float, str]] = []
    for number in range(400):
        stamped = now + chance.uniform(-2.5, 2.5)
        pending.append((now + chance.choice([0, 0, 0.1, 13]), stamped, f"c{number}"))
        now += chance.uniform(0, 0.2)
        for due in [it for it in pending if it[0] <= now]:
            pending.remove(due)
            log.write(*due[1:])
            written.append(due[2])
        for place, skew in enumerate((-2.5, 2.5)):
            if chance.random() < 0.5:
                heard[place] += ids(followers[place].read(now + skew))
    for place, follower in enumerate(followers):
        for number in range(5):
            heard[place] += ids(follower.read(now + number))
    assert sorted(heard[0]) == sorted(heard[1]) == sorted(written)
