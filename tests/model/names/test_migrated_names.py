"""Counts of names that earlier versions made: `migrate` corrects them, and a change that meets the bound does too."""

import pytest

from chalicelib import __main__ as operator
from tests.names import D
from tests.names_held import as_before, scanned, shown
from tests.transports import Client

pytestmark = pytest.mark.usefixtures("tunnel_domain")


def reserve(client: Client, domain: str) -> str:
    return f"/reserved_domains/{client.create('/reserved_domains', {'domain': domain})['id']}"


@pytest.fixture
def aged(admin: Client) -> Client:
    """Return the admin of an account with two names and two cooldowns, as an earlier version counted them."""
    admin.create("/edges/https", {"hostports": [f"x.a.{D}:443", f"y.a.{D}:443"]})
    paths = [reserve(admin, domain) for domain in (f"a.{D}", "app.example.com", f"b.{D}", f"c.{D}")]
    for path in paths[2:]:
        admin.delete(path)
    as_before(admin, names=1000)
    return admin


def test_the_counts_of_an_earlier_version_are_listed_and_then_corrected(
    aged: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    operator.main(["migrate"])
    assert "by step 7" in capsys.readouterr().out
    assert shown(aged) == {"held": 1000, "cooldown": 0, "allowed": 1000}
    operator.main(["migrate", "--apply"])
    assert "0 rewritten." not in capsys.readouterr().out
    assert shown(aged) == scanned(aged) == {"held": 2, "cooldown": 2, "allowed": 1000}
    operator.main(["migrate", "--apply"])
    assert capsys.readouterr().out.endswith("to be rewritten: none.\n0 rewritten.\n")
    reserve(aged, f"b.{D}")
    assert shown(aged) == scanned(aged) == {"held": 3, "cooldown": 1, "allowed": 1000}


def test_what_an_earlier_version_takes_back_beside_this_one_is_corrected(admin: Client) -> None:
    admin.delete(reserve(admin, f"a.{D}"))
    admin.delete(reserve(admin, f"b.{D}"))
    reserve(admin, f"a.{D}")
    as_before(admin, names=2, taken_back=f"a.{D}")
    operator.main(["migrate", "--apply"])
    assert shown(admin) == scanned(admin) == {"held": 1, "cooldown": 1, "allowed": 1000}


def test_an_account_that_an_earlier_version_locked_out_reserves_at_once(aged: Client, stranger: Client) -> None:
    taken = stranger.post("/reserved_domains", {"domain": f"b.{D}"})
    assert (taken.status, taken.json["error_code"]) == (409, "conflict")
    reserve(aged, f"b.{D}")
    assert shown(aged)["held"] == scanned(aged)["held"] == 3
    for path in [f"/reserved_domains/{it['id']}" for it in aged.all("/reserved_domains", "reserved_domains")]:
        aged.delete(path)
    assert shown(aged)["held"] == scanned(aged)["held"] == 1
