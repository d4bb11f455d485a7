"""Tokens that no credential accepts, each with the reason. They are as valid as possible otherwise."""

import hmac
import json
from collections.abc import Mapping
from typing import Any

from tests.federation import signing


def without(name: str, values: Mapping[str, Any] = signing.PAYLOAD) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}


def insert_member(text: str, values: Mapping[str, Any]) -> str:
    """Return an object as JSON with a member before all others."""
    return f"{{{text}, {json.dumps(dict(values))[1:]}"


def forge_tokens(payload: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Return tokens and reasons by name. `payload` is that of a valid token of the keys `rsa`, `ec` and `ed`."""
    issued_at, valid = payload["iat"], signing.token(payload=payload)
    nines, other_payload = "9" * 5000, {**payload, "repository_id": "75"}

    def build_token(header: Any, claims: Any = payload, sign: Any = None) -> str:
        return signing.token(header, claims, sign)

    def made_with(**members: Any) -> str:
        return build_token({**signing.HEADER, **members})

    def claim(name: str, value: Any) -> str:
        return build_token(signing.HEADER, {**payload, name: value})

    return {
        "empty": ("", "malformed"),
        "one part": ("a", "malformed"),
        "two parts": (valid.rpartition(".")[0], "malformed"),
        "four parts": (f"{valid}.a", "malformed"),
        "no signature": (f"{valid.rpartition('.')[0]}.", "malformed"),
        "padding": (f"{valid}=", "malformed"),
        "newline at the end": (f"{valid}\n", "malformed"),
        "space in a part": (valid.replace(".", " .", 1), "malformed"),
        "standard base64": (f"{valid[:-4]}+/+/", "malformed"),
        "too long": (signing.token(payload={**payload, "a": "a" * 16_384}), "malformed"),
        "none": (build_token({"alg": "none", "kid": "rsa"}), "algorithm"),
        "None": (build_token({"alg": "None", "kid": "rsa"}), "algorithm"),
        "no alg": (build_token({"kid": "rsa"}), "algorithm"),
        "alg of another type": (build_token({"alg": ["RS256"], "kid": "rsa"}), "algorithm"),
        "HMAC with the public key": (build_token({"alg": "HS256", "kid": "rsa"}, payload, _sign_hmac), "algorithm"),
        "alg of another key type": (
            build_token({"alg": "ES256", "kid": "rsa"}, payload, signing.sign_es256),
            "signature",
        ),
        "alg of another curve": (build_token({"alg": "ES384", "kid": "ec"}, payload, signing.sign_es256), "signature"),
        "alg of another padding": (build_token({"alg": "PS256", "kid": "rsa"}), "signature"),
        "kid of another key": (build_token({**signing.HEADER, "kid": "ec"}), "signature"),
        "unknown kid": (build_token({**signing.HEADER, "kid": "../../dev/null"}), "signature"),
        "kid of another type": (build_token({**signing.HEADER, "kid": 1}), "malformed"),
        "kid twice": (build_token(insert_member('"kid": "ed"', signing.HEADER)), "malformed"),
        "alg twice": (build_token(insert_member('"alg": "none"', signing.HEADER)), "malformed"),
        "jwk": (made_with(jwk=signing.rsa_jwk()), "malformed"),
        "jku": (made_with(jku="https://evil.example/keys"), "malformed"),
        "x5u": (made_with(x5u="https://evil.example/chain"), "malformed"),
        "crit": (made_with(crit=["exp"]), "malformed"),
        "empty crit": (made_with(crit=[]), "malformed"),
        "b64": (made_with(b64=False), "malformed"),
        "zip": (made_with(zip="DEF"), "malformed"),
        "enc": (made_with(enc="A256GCM"), "malformed"),
        "header is a list": (build_token("[]"), "malformed"),
        "payload is a text": (signing.token(payload='"a"'), "malformed"),
        "payload is not JSON": (signing.token(payload="{"), "malformed"),
        "payload is not UTF-8": (signing.sign_input(f"{valid.split('.')[0]}._w", signing.sign_rs256), "malformed"),
        "payload is deep": (signing.token(payload="[" * 11_000), "malformed"),
        "lone surrogate": (signing.token(payload=insert_member('"a": "\\ud800"', payload)), "malformed"),
        "changed payload": (".".join([valid.split(".")[0], claim("ref", "a").split(".")[1], "AAAA"]), "signature"),
        "signature of another token": (f"{claim('ref', 'a').rpartition('.')[0]}.{valid.split('.')[2]}", "signature"),
        "exp missing": (signing.token(payload=without("exp", payload)), "malformed"),
        "exp as text": (claim("exp", str(issued_at + 300)), "malformed"),
        "exp true": (claim("exp", True), "malformed"),
        "exp null": (claim("exp", None), "malformed"),
        "exp infinite": (signing.token(payload=insert_member('"exp": 1e999', without("exp", payload))), "malformed"),
        "exp NaN": (signing.token(payload=insert_member('"exp": NaN', without("exp", payload))), "malformed"),
        "exp of many digits": (
            signing.token(payload=insert_member(f'"exp": {nines}', without("exp", payload))),
            "malformed",
        ),
        "iat missing": (signing.token(payload=without("iat", payload)), "malformed"),
        "iat as text": (claim("iat", str(issued_at)), "malformed"),
        "nbf as text": (claim("nbf", str(issued_at)), "malformed"),
        "nbf null": (claim("nbf", None), "malformed"),
        "iss missing": (signing.token(payload=without("iss", payload)), "malformed"),
        "iss as a list": (claim("iss", [payload["iss"]]), "malformed"),
        "iss of another": (claim("iss", "https://gitlab.com"), "issuer"),
        "iss with a slash": (claim("iss", f"{payload['iss']}/"), "issuer"),
        "aud missing": (signing.token(payload=without("aud", payload)), "malformed"),
        "sub missing": (signing.token(payload=without("sub", payload)), "malformed"),
        "sub empty": (claim("sub", ""), "malformed"),
        "sub as a number": (claim("sub", 1), "malformed"),
        "claim twice": (
            signing.token(payload=insert_member('"repository_id": "74"', other_payload)),
            "malformed",
        ),
        "inner name twice": (signing.token(payload=insert_member('"a": {"b": 1, "b": 2}', payload)), "malformed"),
    }


def _sign_hmac(data: bytes) -> bytes:
    return hmac.digest(signing.rsa_jwk()["n"].encode(), data, "sha256")
