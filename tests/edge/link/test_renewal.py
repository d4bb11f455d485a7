"""When a key pair is made again, and what is served if that fails."""

import os
from pathlib import Path

import pytest

from edge.link.authority import KeyPair
from edge.link.renewal import RenewedPair


class Maker:
    """Makes numbered pairs. It raises `error` if there is one."""

    def __init__(self) -> None:
        self.count = 0
        self.error: Exception | None = None

    def __call__(self) -> KeyPair:
        if self.error:
            raise self.error
        self.count += 1
        return KeyPair(str(self.count), "key")


@pytest.mark.parametrize(("period", "chains"), [(3600, ["1", "1", "1"]), (0, ["2", "3", "4"])])
def test_a_pair_is_made_again_after_its_period(period: float, chains: list[str]) -> None:
    pair = RenewedPair(Maker(), period=period)
    assert [pair.pair().chain for _ in range(3)] == chains


def test_a_pair_is_made_again_when_one_of_its_files_changes(tmp_path: Path) -> None:
    files = [tmp_path / "chain", tmp_path / "key"]
    for file in files:
        file.touch()
    pair = RenewedPair(Maker(), files)
    chains = [pair.pair().chain]
    for second, file in enumerate(files):
        os.utime(file, (second, second))
        chains += [pair.pair().chain, pair.pair().chain]
    assert chains == ["1", "2", "2", "3", "3"]


@pytest.mark.parametrize("error", [OSError("no disk"), ValueError("no key")])
def test_the_previous_pair_stays_while_renewal_fails(
    error: Exception, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file := tmp_path / "key").touch()
    make = Maker()
    pair = RenewedPair(make, [file])
    os.utime(file, (1, 1))
    make.error = error
    assert [pair.pair().chain, pair.pair().chain] == ["1", "1"]
    assert capsys.readouterr().err.count('"certificate_not_renewed"') == 2
    file.unlink()
    make.error = None
    assert pair.pair().chain == "1"
    file.touch()
    assert pair.pair().chain == "2"


def test_the_first_pair_must_succeed() -> None:
    make = Maker()
    make.error = ValueError("no key")
    with pytest.raises(ValueError, match=r"^no key$"):
        RenewedPair(make)
