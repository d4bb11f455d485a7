"""What these tests share: accounts of their own on the served API."""

from tests.conftest import Served
from tests.doors import Client


def new_account(served: Served) -> Client:
    """The admin of a fresh account, over HTTP: what it lists, its test made."""
    facts = dict(line.split() for line in served.operate("accounts", "create", "newcomer").splitlines())
    return served.client().with_token(facts["token"])
