"""A small world with one of everything, and all that Envoy receives for it: `python -m tests.edge.envoy.whole_world`.

It prints the content of `whole_world.json`, decoded from the encoded messages. Write it there after an intended change,
and read the difference.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chalicelib.model.edges.modules.user_agent_filter import UserAgentModule
from chalicelib.model.serving.account_view import AccountView
from edge.envoy.filters import blocking
from edge.envoy.names import https_listener
from edge.envoy.start.bootstrap import build_bootstrap
from edge.link.authority import KeyPair
from edge.plan import names
from edge.process.settings import Limits, Settings
from edge.serving.name_resources import build_name_resources
from edge.serving.special_plans import SpecialPlans
from edge.serving.special_serving import SpecialServing
from tests.edge.envoy import messages
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
RECORDS = (
    GATEWAY,
    worlds.tunnel(name="demo.tunnels.localhost"),
    worlds.tunnel("tn_2", name="own.tunnels.localhost"),
    worlds.tunnel("tn_3"),
    worlds.tunnel("tn_4", name="passed.tunnels.localhost", proto="tls"),
    worlds.group(),
    worlds.response(503, "away\n", **{"x-reason": "100% away"}),
    worlds.weighted("bkdwd_1", {GROUP: 3, ANSWER: 1}),
    worlds.authority(),
    worlds.certificate("cert_1", "own.tunnels.localhost"),
    worlds.edge(*_ROUTES, hosts=(HOST, "*.wild.tunnels.localhost"), authorities=["ca_1"], version="1.0"),
    worlds.edge(*_ROUTES, id="edghts_2", hosts=("b.tunnels.localhost",)),
)
VISITED_NAMES = [f"{label}.tunnels.localhost" for label in ("demo", "own", "passed", "a", "x.wild", "b")]


def build(
    settings: Settings, world: Sequence[worlds.Record] = RECORDS, visited_names: Sequence[str] = VISITED_NAMES
) -> dict[str, Any]:
    """Return all resources as JSON, by kind, name and part."""
    records = worlds.records_of(*world)
    view, special = AccountView(records, worlds.SERVICE), SpecialServing(settings, "PEM")
    special.public_keys = [{"kty": "EC", "kid": "k"}]
    plans = names.plan_names(visited_names, records, NOW, worlds.SERVICE)
    edges = (names.plan_edge(id, records, NOW, worlds.SERVICE) for id in records.edges)
    tunnels = tuple(plan for plan in plans.values() if plan.site and plan.is_special)
    special_plans = SpecialPlans(tuple(edge for edge in edges if edge and names.is_special_edge(edge.edge)), tunnels)
    resources = {resource.key: resource for resource in https_listener.build_public(settings)}
    resources |= {key: resource for key, resource in special.update(special_plans, view).items() if resource}
    for plan in plans.values():
        pair = KeyPair("CHAIN", "KEY") if plan.certificate else None
        name_resources = build_name_resources(plan, pair, view, "PEM", settings)
        resources |= {
            resource.key: resource
            for resource in (*name_resources.clusters, name_resources.scope, name_resources.secret)
            if resource
        }
    resources |= {
        resource.key: resource
        for resource in blocking.build_rules(["192.0.2.0/24", "2001:db8::/32"], ["bad.example", "*bank*"])
    }
    bodies = {" ".join(key).strip(): messages.decode(resource) for key, resource in sorted(resources.items())}
    return {"bootstrap": build_bootstrap(settings), **bodies}


def format_json(value: Any, indent: str = "") -> str:
    """Return JSON with sorted keys and as few lines as fit."""
    line, deeper = json.dumps(value, sort_keys=True), f"{indent} "
    if len(indent) + len(line) <= _WIDTH or not isinstance(value, dict | list):
        return line
    if isinstance(value, list):
        start, end, parts = "[", "]", [format_json(member, deeper) for member in value]
    else:
        start, end = "{", "}"
        parts = [f"{json.dumps(key)}: {format_json(member, deeper)}" for key, member in sorted(value.items())]
    return f"{start}\n{deeper}" + f",\n{deeper}".join(parts) + f"\n{indent}{end}"


if __name__ == "__main__":
    print(format_json(build(SETTINGS)))
