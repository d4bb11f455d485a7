"""Store calls of a request, the caller looked up too: counted, not timed."""

from collections import Counter

from bench import calls, requests, results, signing
from bench.engines import Setting
from bench.results import Result, Row


def measure(setting: Setting) -> Result:
    authority = requests.create("/ssh_certificate_authorities", setting.token, {})["id"]
    certificate = signing.request(authority)
    requests.create("/ssh_user_certificates", setting.token, certificate)  # the vault has opened the key from here on
    backends = "/backends/weighted"
    id = requests.create(backends, setting.token, {})["id"]
    return Result(
        [
            _row("get", Counter(read=2), requests.event("GET", f"{backends}/{id}", setting.token)),
            _row("list", Counter(read=2), requests.event("GET", backends, setting.token)),
            _row("create", Counter(read=1, write=1), requests.event("POST", backends, setting.token, {})),
            _row(
                "certificate",  # the second read: the authority, and whether it has revoked the public key
                Counter(read=2, write=1),
                requests.event("POST", "/ssh_user_certificates", setting.token, certificate),
            ),
        ]
    )


def _row(name: str, must: Counter[str], event: dict[str, object]) -> Row:
    with calls.recording("dynamodb", "kms") as made:
        requests.answer(event)
    counted = Counter(call.kind for call in made)
    return results.exactly(
        f"store calls, {name}: the fewest", _said(counted), _said(must), counted.total() / must.total()
    )


def _said(counted: Counter[str]) -> str:
    return ", ".join(f"{counted[kind]} {kind}" for kind in sorted(counted))
