"""The exchange of a token, compared with POST /api_keys: CPU in this process, and calls to the store."""

import os
import time
from typing import Any

from bench import calls, requests, results, side_by_side
from bench.engines import Setting
from bench.results import Result
from tests.federation import exchanges, issuer_server
from tests.federation.exchanges import Issuer

_ROUNDS = 300
_CALLS = 3


def measure(setting: Setting) -> Result:
    with issuer_server.serve_issuer() as server:
        os.environ["OIDC_ISSUERS"] = f"{server.url}=repository_id"
        issuer = Issuer(server)
        credential = requests.create("/federated_credentials", setting.token, issuer.fields(owner_id=_owner(setting)))
        body = exchanges.parameters(issuer.token(credential["id"]), credential["id"])
        exchange = requests.event("POST", "/tokens", "", body)
        create = requests.event("POST", "/api_keys", setting.token, {"scopes": ["backends:read"]}, setting.context)
        requests.answer(exchange)  # fetches the keys of the issuer
        ours, against = side_by_side.medians(
            (lambda: requests.answer(exchange), lambda: requests.answer(create)), _ROUNDS, time.process_time
        )
        with calls.recording() as trace:
            requests.answer(exchange)
    return Result(
        [
            results.at_most(1.3, "exchange of a token, CPU: POST /api_keys", ours, against, results.ms),
            results.exactly("… calls to the store", f"{len(trace)}", f"{_CALLS}", len(trace) / _CALLS),
        ]
    )


def _owner(setting: Setting) -> str:
    """Return the id of the caller."""
    me: Any = requests.answer(requests.event("GET", "/me", setting.token, context=setting.context))
    return str(me["owner"]["id"])
