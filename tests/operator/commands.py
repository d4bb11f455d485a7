"""Commands of the operator: what they print, and how they fail."""

import re

import pytest

from chalicelib.__main__ import main
from tests.transports import RECORD

Output = pytest.CaptureFixture[str]
TOKEN = r"te_[0-9A-Za-z]{27}_[0-9A-Za-z_-]{32}[0-9A-Za-z]{6}"


def said(output: Output, *arguments: str) -> list[str]:
    """Return the lines that a command prints."""
    main([*arguments])
    captured = output.readouterr()
    assert captured.err == ""
    RECORD.secrets.update(re.findall(TOKEN, captured.out))
    return captured.out.splitlines()


def refused(*arguments: str) -> object:
    """Return the message of a command that fails: Python prints it, and exits with status 1."""
    with pytest.raises(SystemExit) as ended:
        main([*arguments])
    return ended.value.code
