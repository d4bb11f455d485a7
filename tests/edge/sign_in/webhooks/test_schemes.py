"""Signatures of webhooks: published examples of providers, and what is no signature of theirs."""

import base64
import hashlib
import hmac
from dataclasses import dataclass
from typing import get_args

import pytest

from chalicelib.model.edges.modules.webhook_verification import WebhookProvider
from edge.sign_in.webhooks import schemes
from edge.sign_in.webhooks.schemes import Headers
from tests.edge.sign_in.webhooks.signing import PROVIDERS, SIGNED_TIMES, secret_of, sign

NOW = 1_790_000_000
BODY = b'{"test": 2432232314}'


@dataclass(frozen=True)
class Example:
    """A request that a provider published, or that its own library signed."""

    provider: WebhookProvider
    secret: str
    headers: Headers
    body: bytes
    at: int = NOW


_SLACK = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar"
    b"&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com"
    b"%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121."
    b"803a0bc887a14d10d2c447fce8b6703c"
)
_OF_SVIX = (
    b"msg_p5jXN8AQM9LWM0D4loKWxJek",
    b"1614265330",
    b"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
)
EXAMPLES = (
    Example(
        "GITHUB",
        "It's a Secret to Everybody",
        [("x-hub-signature-256", b"sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")],
        b"Hello, World!",
    ),
    Example(
        "SLACK",
        "8f742231b10e8888abcd99yyyzzz85a5",
        [
            ("x-slack-request-timestamp", b"1531420618"),
            ("x-slack-signature", b"v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"),
        ],
        _SLACK,
        1531420618,
    ),
    *(
        Example(
            "SVIX",
            f"{start}MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            list(zip((f"{name}-id", f"{name}-timestamp", f"{name}-signature"), _OF_SVIX, strict=True)),
            BODY,
            1614265330,
        )
        for name in ("svix", "webhook")
        for start in ("whsec_", "")
    ),
)
each_provider = pytest.mark.parametrize("provider", PROVIDERS)


def is_accepted(provider: WebhookProvider, headers: Headers, body: bytes = BODY, now: float = NOW) -> bool:
    return schemes.verify(provider, secret_of(provider), headers, body, now)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.provider)
def test_published_examples_are_accepted(example: Example) -> None:
    assert schemes.verify(example.provider, example.secret, example.headers, example.body, example.at)
    assert not schemes.verify(example.provider, example.secret, example.headers, example.body + b" ", example.at)
    assert not schemes.verify(example.provider, "whsec_c2VjcmV0", example.headers, example.body, example.at)


def test_each_provider_of_the_api_has_a_scheme() -> None:
    assert tuple(schemes.SCHEMES) == get_args(WebhookProvider)


@each_provider
def test_only_what_was_signed_is_accepted(provider: WebhookProvider) -> None:
    headers = sign(provider, BODY, NOW)
    assert is_accepted(provider, headers)
    assert is_accepted(provider, headers, b"altered") == (provider == "GITLAB")  # its token does not sign the body
    assert not is_accepted(provider, [])
    assert not is_accepted(provider, [(name, b"") for name, _ in headers])
    assert not is_accepted(provider, [(name, value[:-1]) for name, value in headers])
    assert not is_accepted(provider, [(name, value + b" ") for name, value in headers])
    assert not is_accepted(provider, [(name, value.swapcase()) for name, value in headers])
    assert not schemes.verify(provider, "", headers, BODY, NOW)
    assert not schemes.verify(provider, "whsec_AAAA", headers, BODY, NOW)


@each_provider
def test_a_header_that_occurs_twice_is_refused(provider: WebhookProvider) -> None:
    headers = sign(provider, BODY, NOW)
    for twice in headers:
        assert not is_accepted(provider, [*headers, twice])
        assert not is_accepted(provider, [(twice[0], b"x"), *headers])


@each_provider
@pytest.mark.parametrize("late", [-301, -300, 0, 300, 301])
def test_a_signed_timestamp_ages(provider: WebhookProvider, late: int) -> None:
    headers = sign(provider, BODY, NOW)
    assert is_accepted(provider, headers, now=NOW + late) == (abs(late) <= 300 or provider not in SIGNED_TIMES)


@pytest.mark.parametrize("provider", SIGNED_TIMES)
@pytest.mark.parametrize("time", [b"", b"now", b"-1", b"1e9", b" 1", b"9" * 13, b"2026-13-41T00:00:00Z", b"0x10"])
def test_a_malformed_timestamp_is_refused(provider: WebhookProvider, time: bytes) -> None:
    assert not is_accepted(provider, sign(provider, BODY, NOW, time=time))


@each_provider
def test_a_signature_of_another_time_is_refused(provider: WebhookProvider) -> None:
    early, late = sign(provider, BODY, NOW - 1000), sign(provider, BODY, NOW)
    mixed = [late[index] if "time" in late[index][0] else early[index] for index in range(len(late))]
    assert is_accepted(provider, mixed) == (provider not in SIGNED_TIMES)


def test_the_time_of_stripe_occurs_once() -> None:
    ((name, value),) = sign("STRIPE", BODY, NOW)
    old = sign("STRIPE", BODY, NOW - 1000)[0][1]
    assert is_accepted("STRIPE", [(name, value + b",v0=x")])
    assert not is_accepted("STRIPE", [(name, b"t=1," + value)])
    assert not is_accepted("STRIPE", [(name, old.replace(b"t=", f"t={NOW},t=".encode()))])
    assert not is_accepted("STRIPE", [(name, value.partition(b",")[2])])


@pytest.mark.parametrize("provider", ["PAGERDUTY", "STRIPE", "SVIX"])
def test_one_of_several_signatures_suffices(provider: WebhookProvider) -> None:
    headers, scheme = sign(provider, BODY, NOW), schemes.SCHEMES[provider]
    wrong = scheme.separator + scheme.prefix + b"x"

    def more(count: int) -> Headers:
        return [(name, value + wrong * count if name == scheme.header else value) for name, value in headers]

    assert is_accepted(provider, more(1))
    assert not is_accepted(provider, more(16))


@pytest.mark.parametrize("provider", [name for name in PROVIDERS if name not in ("PAGERDUTY", "STRIPE", "SVIX")])
def test_other_providers_send_one_signature(provider: WebhookProvider) -> None:
    headers, scheme = sign(provider, BODY, NOW), schemes.SCHEMES[provider]
    for separator in (b",", b", ", b" "):
        more = [(n, value + separator + value if n == scheme.header else value) for n, value in headers]
        assert not is_accepted(provider, more)


def test_parts_of_a_signed_text_cannot_move() -> None:
    """The id of a message has no dot, so neither it nor the timestamp can take the beginning of the body."""
    body = f"{NOW}.rest".encode()
    text = b"msg.1." + body
    digest = hmac.new(base64.b64decode(secret_of("SVIX").removeprefix("whsec_")), text, hashlib.sha256).digest()
    signature = b"v1," + base64.b64encode(digest)
    headers = [("svix-id", b"msg.1"), ("svix-timestamp", str(NOW).encode()), ("svix-signature", signature)]
    assert not is_accepted("SVIX", headers, b"rest")
