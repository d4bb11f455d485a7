"""A small world with one of everything, and all that Envoy is told of it: `python -m tests.edge.envoy.whole_world`.

It prints what `whole_world.json` holds: write it there after a change that is meant, and read the difference.
"""

import json
from pathlib import Path
from typing import Any

from chalicelib.model.edges.modules import UserAgentModule
from edge.envoy.bootstrap import build_bootstrap
from edge.envoy.filters import blocking
from edge.process.settings import Limits, Settings
from edge.serving.serving import Serving
from tests.edge.plan import worlds
from tests.edge.plan.values import ANSWER, GATEWAY, GROUP, HOST, NOW

FILE = Path(__file__).with_suffix(".json")
_WIDTH = 120
SETTINGS = Settings(
    directory=Path("/edge"),
    edge_port=8443,
    http_port=8080,
    abuse_contact="abuse@example.com",
    limits=Limits(max_socket_kib=1, max_heap_mib=512),
)
_AGENTS = UserAgentModule(allow=[r"good\Q.\E"], deny=["bad"])
_ROUTES = (
    worlds.route("/", "bkdwd_1", agents=_AGENTS),
    worlds.route("/exact", GROUP, id="edghtsrt_2", kind="exact_path"),
    worlds.route("/answer", ANSWER, id="edghtsrt_3"),
    worlds.route("/closed", GROUP, id="edghtsrt_4", unenforced=("oauth",)),
    worlds.route("/none", None, id="edghtsrt_5"),
)
FACTS = (
    GATEWAY,
    worlds.tunnel(name="demo.tunnels.localhost"),
    worlds.tunnel("tn_2", name="own.tunnels.localhost"),
    worlds.tunnel("tn_3"),
    worlds.group(),
    worlds.response(503, "away\n", **{"x-reason": "100% away"}),
    worlds.weighted("bkdwd_1", {GROUP: 3, ANSWER: 1}),
    worlds.authority(),
    worlds.certificate("cert_1", "own.tunnels.localhost"),
    worlds.edge(*_ROUTES, hosts=(HOST, "*.wild.tunnels.localhost"), authorities=["ca_1"], version="1.0"),
)


def told() -> dict[str, Any]:
    """Return all resources as JSON has them, by kind, name and part."""
    made = Serving(SETTINGS, "PEM")
    changes = {**made.start(), **made.update(FACTS, NOW)}
    for account in made.world.accounts():
        changes |= made.update((), NOW, made.world.set_ready(account, made.world.hosts_of_account(account)))
    changes |= {it.key: it for it in blocking.build_rules(["192.0.2.0/24", "2001:db8::/32"], ["bad.example", "*bank*"])}
    bodies = {" ".join(key).strip(): it.body for key, it in changes.items() if it}
    return dict(json.loads(json.dumps({"bootstrap": build_bootstrap(SETTINGS), **dict(sorted(bodies.items()))})))


def written(value: Any, indent: str = "") -> str:
    """Return JSON in which whatever fits in a line stands in one."""
    line, deeper = json.dumps(value), f"{indent} "
    if len(indent) + len(line) <= _WIDTH or not isinstance(value, dict | list):
        return line
    pairs = isinstance(value, dict)
    parts = [f"{json.dumps(key)}: {written(value[key], deeper)}" if pairs else written(key, deeper) for key in value]
    opened, closed = "{}" if pairs else "[]"
    return f"{opened}\n{deeper}" + f",\n{deeper}".join(parts) + f"\n{indent}{closed}"


if __name__ == "__main__":
    print(written(told()))
