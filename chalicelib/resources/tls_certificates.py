"""TLS certificates (SPEC 2.7). All a response says is read from the leaf; the private key is sealed and never shown."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from pydantic import PlainValidator, ValidationInfo, field_validator

from chalicelib import clock
from chalicelib.api.caller import Caller
from chalicelib.api.fields import Described
from chalicelib.api.resource import EditableResource, New
from chalicelib.crypto import chains, keys, private_keys
from chalicelib.crypto.chains import Chain
from chalicelib.crypto.keys import PrivateKey
from chalicelib.crypto.x509 import Facts, Name

T = TypeVar("T")


def _pem(read: Callable[[str], T]) -> PlainValidator:
    """A string of PEM, as what `read` makes of it."""

    def check(value: Any) -> T:
        if not isinstance(value, str):
            raise ValueError("must be a string of PEM")
        return read(value)

    return PlainValidator(check)


class Create(Described):
    certificate_pem: Annotated[Chain, _pem(chains.read)]
    private_key_pem: Annotated[PrivateKey, _pem(private_keys.read)]

    @field_validator("private_key_pem")
    @classmethod
    def _is_of_the_leaf(cls, value: PrivateKey, info: ValidationInfo) -> PrivateKey:
        chain: Chain | None = info.data.get("certificate_pem")
        if chain and value.public_key() != chain.leaf.public_key:
            raise ValueError("must be the private key of the first certificate in certificate_pem")
        return value


def make(caller: Caller, id: str, asked: Create) -> New:
    return New(
        body={
            "description": asked.description,
            "metadata": asked.metadata,
            "certificate_pem": asked.certificate_pem.pem,
            "issued_at": None,  # set only for certificates that are issued automatically, which none is here
            **_leaf(asked.certificate_pem.leaf),
            **_subject(asked.certificate_pem.leaf.subject),
        },
        sealed={"private_key": keys.to_der(asked.private_key_pem)},
    )


def _leaf(leaf: Facts) -> dict[str, Any]:
    return {
        "subject_alternative_names": {"dns_names": leaf.dns_names, "ips": leaf.ips},
        "not_before": clock.rfc3339(leaf.not_before),
        "not_after": clock.rfc3339(leaf.not_after),
        "key_usages": leaf.key_usages,
        "extended_key_usages": leaf.extended_key_usages,
        "private_key_type": keys.key_type(leaf.public_key),
        "issuer_common_name": leaf.issuer.common_name,
        "serial_number": leaf.serial_number,
    }


def _subject(subject: Name) -> dict[str, str]:
    return {
        "subject_common_name": subject.common_name,
        "subject_organization": subject.organization,
        "subject_organizational_unit": subject.organizational_unit,
        "subject_locality": subject.locality,
        "subject_province": subject.province,
        "subject_country": subject.country,
    }


TLS_CERTIFICATES = EditableResource(
    prefix="cert",
    path="/tls_certificates",
    items="tls_certificates",
    create=Create,
    make=make,
)
