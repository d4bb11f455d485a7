"""Commands of the operator: what they print, and how they fail."""

import json
import re
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import pytest

from chalicelib import ids
from chalicelib.__main__ import main
from chalicelib.storage.client import aws
from tests.transports import RECORD, Client, InProcess

Output = pytest.CaptureFixture[str]
TOKEN = r"te_[0-9A-Za-z]{27}_[0-9A-Za-z_-]{32}[0-9A-Za-z]{6}"


def run_without_errors(output: Output, *arguments: str) -> list[str]:
    """Return the lines that a command prints."""
    main([*arguments])
    captured = output.readouterr()
    assert captured.err == ""
    RECORD.secrets.update(re.findall(TOKEN, captured.out))
    return captured.out.splitlines()


def run(*arguments: str) -> list[str]:
    """Return the lines that a command prints to standard output, whatever it reports beside."""
    with redirect_stdout(StringIO()) as printed, redirect_stderr(StringIO()):
        main([*arguments])
    return printed.getvalue().splitlines()


def expect_failure(*arguments: str) -> object:
    """Return the message of a command that fails: Python prints it, and exits with status 1."""
    with pytest.raises(SystemExit) as error:
        main([*arguments])
    return error.value.code


def create_account(output: Output, *arguments: str) -> tuple[str, str, str]:
    """Return a fresh account: its id, its admin's, and the admin's token."""
    account, admin, token = run_without_errors(output, "accounts", "create", *(arguments or (ids.new("acme"),)))
    return account.removeprefix("account "), admin.removeprefix("admin "), token.removeprefix("token ")


def bearer(transport: InProcess, token: str) -> Client:
    return Client(transport).with_token(token)


def dump_table() -> str:
    return json.dumps(aws.client("dynamodb").scan(TableName="tunnel-edge")["Items"], default=repr)
