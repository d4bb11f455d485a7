"""The firewall's rules of an edge host, `infra/deploy/tunnel-edge.nft`, as the kernel obeys them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]
_RULES = _ROOT / "infra" / "deploy" / "tunnel-edge.nft"
_ATTEMPTS = 12
_VISITORS = ("127.0.0.2", "127.0.0.3", "fd00:0:0:1::2", "fd00:0:0:1::3", "fd00:0:0:2::2")


def _connections(rules: str, folder: Path) -> dict[str, int]:
    """Return how many connections of _BEGUN each visitor gets under these rules."""
    file = folder / "rules.nft"
    file.write_text(rules)
    command = ["unshare", "--map-root-user", "--net", sys.executable, "-m", "tests.live.edge.connecting", str(file)]
    result = subprocess.run(
        [*command, str(_ATTEMPTS), *_VISITORS], cwd=_ROOT, capture_output=True, text=True, timeout=30
    )
    assert result.returncode == 0, result.stderr
    counts: dict[str, int] = json.loads(result.stdout)
    return counts


@pytest.mark.needs("nftables")
@pytest.mark.parametrize(("limit", "lowered"), [("over 1000 ", "over 8 "), ("burst 500 ", "burst 8 ")])
def test_a_visitor_has_as_many_connections_as_the_firewall_lets_it_and_takes_none_from_others(
    tmp_path: Path, limit: str, lowered: str
) -> None:
    rules = _RULES.read_text().replace("20/second", "1/hour")
    assert rules.count(limit) == 2

    connections = _connections(rules.replace(limit, lowered), tmp_path)

    assert connections == {
        "127.0.0.2": 8,
        "127.0.0.3": 8,
        "fd00:0:0:1::2": 8,
        "fd00:0:0:1::3": 0,  # of the same /64
        "fd00:0:0:2::2": 8,
    }


@pytest.mark.needs("nftables")
def test_the_networks_of_proxies_are_not_bounded(tmp_path: Path) -> None:
    rules = _RULES.read_text().replace("over 1000 ", "over 8 ")

    set_of_4 = "typeof ip saddr; flags interval;"
    rules_with_proxies = rules.replace(set_of_4, f"{set_of_4} elements = {{ 127.0.0.2/31 }};")

    connections = _connections(rules_with_proxies, tmp_path)

    assert (connections["127.0.0.2"], connections["127.0.0.3"], connections["fd00:0:0:1::2"]) == (
        _ATTEMPTS,
        _ATTEMPTS,
        8,
    )
