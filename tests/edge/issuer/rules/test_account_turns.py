"""Fairness among accounts, with a clock of the test: a busy account delays no other."""

from collections import Counter, defaultdict

from chalicelib.model.names.renewal_schedule import RenewalEntry
from chalicelib.model.tls.renewals import Renewal
from edge.issuer.rules import account_turns, order_bounds
from edge.issuer.rules.account_turns import AccountTurns, Candidate
from edge.issuer.rules.order_bounds import History, OrderBounds

MINUTE = 60


def due(counts: dict[str, int]) -> list[Candidate]:
    return [
        Candidate(account, f"{account}-{number}", 0) for account, count in counts.items() for number in range(count)
    ]


def test_urgent_renewals_come_first_and_then_accounts_in_turn() -> None:
    candidates = [
        Candidate("a", "a1", 1),
        Candidate("a", "a2", 2),
        Candidate("a", "a3", 3),
        Candidate("b", "b1", 9),
        Candidate("c", "c1", 8, urgent_at=200),
        Candidate("c", "c2", 9, urgent_at=100),
    ]
    assert [candidate.id for candidate in AccountTurns().choose(candidates, 10)] == ["c2", "c1", "a1", "b1", "a2", "a3"]


def test_a_renewal_is_urgent_from_its_time_on() -> None:
    entry = RenewalEntry("acct_1", "rd_1", Renewal(50, urgent_at=100))
    assert [account_turns.candidate(entry, now).urgent_at for now in (99, 100, 101)] == [0, 100, 100]
    first = RenewalEntry("acct_1", "rd_1", Renewal(50))
    assert account_turns.candidate(first, 101) == Candidate("acct_1", "rd_1", 50)


def test_accounts_take_turns_over_several_choices() -> None:
    turns, candidates = AccountTurns(), due({"a": 5, "b": 2, "c": 1})
    accounts = []
    while candidates:
        (candidate,) = turns.choose(candidates, 1)
        accounts.append(candidate.account)
        candidates.remove(candidate)
    assert "".join(accounts) == "abcabaaa"


def simulate(counts: dict[str, int], limits: OrderBounds) -> tuple[dict[str, list[int]], list[int]]:
    """Return when the domains of each account are ordered, and all times of orders, with a minute for each round."""
    turns, candidates, now = AccountTurns(), {candidate.id: candidate for candidate in due(counts)}, 0
    of_account: dict[str, list[int]] = defaultdict(list)
    order_times: list[int] = []
    times: dict[str, int] = {}
    while candidates:
        open_ = [candidate for candidate in candidates.values() if times.get(candidate.account, 0) <= now]
        room = 0 if limits.service.admits_at(order_times, now) else 10
        for candidate in turns.choose(open_, room):
            history = History(account=of_account[candidate.account], service=order_times)
            limit = order_bounds.find_limit(limits, history, now, replaces=False)
            if limit is None:
                of_account[candidate.account].append(now)
                order_times.append(now)
                del candidates[candidate.id]
            else:
                times[candidate.account] = limit.not_before
        now += MINUTE
    return of_account, order_times


def test_an_account_with_a_thousand_due_domains_delays_no_other() -> None:
    limits = OrderBounds()
    other_counts = {f"account-{number:02}": 21 if number < 20 else 20 for number in range(49)}
    busy, order_times = simulate({"busy": 1000, **other_counts}, limits)
    calm, _ = simulate({"busy": 10, **other_counts}, limits)
    assert Counter({account: len(times) for account, times in busy.items()}) == {"busy": 1000, **other_counts}
    # The others' first ten domains come exactly as early. In rounds 11 to 21 the busy account takes a turn that it
    # would not have with ten domains: eleven turns, at ten a minute.
    later = [busy[account][index] - time for account in other_counts for index, time in enumerate(calm[account])]
    assert max(later) <= limits.service.seconds
    assert sum(delay > 2 * MINUTE for delay in later) <= 11 * len(later) // limits.service.count
    for start in range(len(order_times) - limits.service.count):
        assert order_times[start + limits.service.count] - order_times[start] >= limits.service.seconds
