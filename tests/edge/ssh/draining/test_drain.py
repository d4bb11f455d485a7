"""How fast a gateway that drains disconnects its clients."""

import pytest

from edge.ssh.draining.drain import choose_rate


@pytest.mark.parametrize(("clients", "rate"), [(1, 100), (500, 100), (1000, 200), (10_000, 2000)])
def test_clients_are_disconnected_within_half_of_the_handover_but_not_slowly(clients: int, rate: float) -> None:
    assert choose_rate(clients, 10) == rate
