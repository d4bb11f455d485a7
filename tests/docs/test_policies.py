"""The traffic policies that the documentation shows are enforced."""

import json
import re
from pathlib import Path

from chalicelib.model.edges.traffic_policies import describe_unsupported

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "infra" / "build" / "openapi" / "examples.json"


def test_the_policies_of_pages_and_examples_are_enforced() -> None:
    page = (ROOT / "docs" / "edge.md").read_text().partition("\n### Which connections a port accepts\n")[2]
    (example,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    examples = json.loads(EXAMPLES.read_text())["tcp_edge_traffic_policy"]

    policies = [example, examples["replace"]["value"], examples["response"]["value"]]
    assert [describe_unsupported(policy) for policy in policies] == ["", "", ""]


def test_the_page_shows_a_sentence_of_the_status() -> None:
    rule = {"expressions": ["conn.geo.country_code == 'DE'"], "actions": [{"type": "deny"}]}
    sentence = describe_unsupported(json.dumps({"inbound": [{"actions": [{"type": "deny"}]}, rule]}))
    assert f"\n{sentence}\n" in (ROOT / "docs" / "edge.md").read_text()
