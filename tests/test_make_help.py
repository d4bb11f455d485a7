"""`make help`: every target that is for people, as it is to be read."""

from tests.conftest import ROOT
from tests.served.test_make_run_fails import run


def test_every_target_is_told_in_a_line() -> None:
    status, told, err = run({}, "make", "help")
    assert (status, err) == (0, "")
    named = (ROOT / "Makefile").read_text().partition("\n.PHONY: ")[2].partition("\n\n")[0].replace("\\", "").split()
    assert sorted(line.split()[0] for line in told.splitlines()) == sorted(named)
    assert "Make build/$STAGE: the Lambda package" in told
