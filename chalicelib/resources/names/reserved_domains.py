"""Reserved domains. Outside TUNNEL_DOMAIN, an account must prove that it owns them."""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any

from chalicelib import clock, domains
from chalicelib.http import messages
from chalicelib.http.auth import Caller
from chalicelib.http.endpoints import Call, CreatedItem, Endpoint
from chalicelib.http.errors import Conflict, InvalidRequest, RateLimited, UnknownReference
from chalicelib.http.resource import EditableResource, New, show_fields
from chalicelib.model.base import kinds, records
from chalicelib.model.changes import Change as OneChange
from chalicelib.model.names import bans, base_names, proof_checks, proofs, renewal_schedule, reservations
from chalicelib.model.names.proofs import TooSoon
from chalicelib.model.names.reservations import ReservedDomain
from chalicelib.resources.names import certificate_management, verifications
from chalicelib.resources.names.certificate_management import (
    CertificatePolicyGiven,
    CertificatePolicyShown,
    CertificateStatus,
)
from chalicelib.resources.names.verifications import ReservedDomainVerification
from chalicelib.schema.fields import DescribedShape, Ref, Shown, Text
from chalicelib.schema.header_fields import KeepHeaders
from chalicelib.schema.rules import After, Unchanged, entries, id_of, if_empty, if_null, max_bytes
from chalicelib.schema.shapes import ABSENT, NoFields, Shape
from chalicelib.storage.client.dynamodb import Write
from chalicelib.storage.records import table, writes
from chalicelib.storage.records.items import Item
from chalicelib.storage.records.references import replace_references


def _normalize_domain(text: str) -> str:
    name = domains.normalize(text)
    if not base_names.is_below(name) and domains.is_public_suffix(name):
        raise ValueError("must not be a public suffix: the names below it belong to different owners")
    return name


def _check_certificate_id(text: str) -> str:
    return text and str(_CERTIFICATE.check(text))


_CERTIFICATE = id_of("certificate_id", "must be the id of a TLS certificate (cert_…)")
Domain = Annotated[
    str, After(_normalize_domain, {"pattern": f"^(?:[*][.])?{domains.PATTERN}[.]?$", "format": "own-domain"})
]
# There is only one region: any value is accepted and shown as "".
Region = Annotated[Text, max_bytes(255), After(lambda _: "")]
CertificateId = Annotated[str, After(_check_certificate_id, _CERTIFICATE.json_schema), if_empty("")]


class Change(DescribedShape):
    region: Region = ""
    """Accepted but ignored; always empty in responses."""

    certificate_id: Annotated[CertificateId, Unchanged((None, ""))] = ""
    """TLS certificate with which the domain is served, even if another certificate covers the domain too."""

    certificate_management_policy: Annotated[CertificatePolicyGiven | None, Unchanged((None,))] = None
    """How the certificate of the domain is issued and renewed automatically. Not together with `certificate_id`. To end
    automatic certificates, DELETE the policy."""

    resolves_to: Annotated[list[str], entries(0, 0), if_null([])] = []
    """Must be null or empty."""

    keep_headers: KeepHeaders = []
    """Names of request headers that the edge does not remove from requests to the domain's tunnels, although upstreams
    may trust them as set by a proxy: at most 20, in lower case. Responses have the field if it is not empty."""


class Create(Change):
    domain: Domain
    """The domain in ASCII form. A wildcard `*.d` means all names below d. A domain below the domain of tunnels belongs
    to the account at once, with all names below the same label. Any other domain is served once the account has proved
    it."""

    certificate_id: CertificateId = ""
    """TLS certificate with which the domain is served, even if another certificate covers the domain too."""

    certificate_management_policy: CertificatePolicyGiven | None = None
    """How the certificate of the domain is issued and renewed automatically; null: certificates are uploaded. Not
    together with `certificate_id`.
    """

    proxy_protocol: Annotated[bool, if_null(False)] = False
    """True: the upstream expects the PROXY protocol. It cannot be changed."""


class ReservedDomainShown(DescribedShape, Shown):
    """A domain that belongs to the account, even while nothing listens there."""

    domain: str
    """The domain, in lower case."""

    region: str
    """Always empty: there is one region."""

    cname_target: str | None
    """A CNAME of the domain to this target proves the domain, like the TXT record; null below the domain of tunnels."""

    certificate: Ref | None
    """The TLS certificate that was chosen or last issued for the domain; null if the best certificate that covers the
    domain is used."""

    certificate_management_policy: CertificatePolicyShown | None
    """How its certificate is issued and renewed automatically; null if certificates are uploaded."""

    certificate_management_status: CertificateStatus | None
    """The state of its automatic certificate; null without a policy."""

    acme_challenge_cname_target: str | None
    """A CNAME of `_acme-challenge.<domain>` to this target permits the service to get certificates by DNS challenges,
    which wildcards require. Null without a policy, or if the operator does not offer DNS challenges."""

    resolves_to: list[str]
    """Always empty."""

    proxy_protocol: bool = ABSENT
    """True: the upstream expects the PROXY protocol; otherwise absent."""

    keep_headers: list[str] = ABSENT
    """Names of request headers that the edge does not remove from requests to the domain's tunnels, in lower case;
    absent if there are none."""

    verification: ReservedDomainVerification = ABSENT
    """The state of the domain's proof; absent below the domain of tunnels, where no proof is needed."""


def make(caller: Caller, id: str, request: Create) -> New:
    base_names.check_settings()
    _refuse_kept(request.domain)
    stored = ReservedDomain.of(request.values())
    certificate_management.check(stored, stored.policy)
    certificate_management.check_certificate(caller.account, stored)
    if base_names.is_below(request.domain):
        return New(stored)
    value, label = secrets.token_hex(16), secrets.token_hex(16)
    target = f"{label}.cname.{base_names.domain()}" if base_names.domain() else ""
    proof = proofs.begin(clock.seconds(), value=value, cname_target=target)
    stored = replace(stored, proof=asdict(proof))
    unseen, entry = renewal_schedule.begin(caller.account, id) if stored.policy else ({}, [])
    checks = proof_checks.schedule(Item(caller.scope(kinds.RESERVED_DOMAINS.path), id, stored.to_record()))
    return New(stored, also=[*checks, *entry], unseen=unseen)


def _refuse_kept(domain: str) -> None:
    if base_names.is_operator_name(base_names.base_name(domain)) or bans.matches(domain, bans.list_patterns()):
        raise Conflict(base_names.OPERATOR_NAME_MESSAGE.format("domain"), {"domain": base_names.OPERATOR_NAME_RULE})
    if base_names.is_below(domain) and not base_names.base_name(domain):
        raise InvalidRequest.of({"domain": f"must be a name below {base_names.domain()}"})


def _build_responses(items: Sequence[Item], call: Call) -> Iterator[dict[str, Any]]:
    for item in items:
        stored = records.decode(ReservedDomain, item)
        unset = (name for name in ("proxy_protocol", "keep_headers") if not getattr(stored, name))
        hidden_fields = {"certificate_id", "issued_certificate_id", "proof", *unset}
        fields = {
            name: value for name, value in show_fields(ReservedDomain, item, call).items() if name not in hidden_fields
        }
        proof = stored.progress
        yield {
            **fields,
            "cname_target": proof.cname_target or None if proof else None,
            "certificate": messages.ref(call.base_url, stored.certificate_id) if stored.certificate_id else None,
            **certificate_management.responses(stored, item),
            **({"verification": verifications.response(stored.domain, proof)} if proof else {}),
        }


def _remove_mark(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reserved domain's body without the field that marks its certificate as issued automatically."""
    return {name: value for name, value in body.items() if name != "issued_certificate_id"}


def _remove(change: OneChange, scope: str, id: str) -> bool:
    """Delete a reserved domain. Return False if it does not exist. Raises the errors of `Change.commit`."""

    def attempt() -> bool:
        item = table.find(scope, id)
        if item:
            _, entry = renewal_schedule.end(item)
            change.remove(item).add(*proof_checks.unschedule(item), *entry).commit()
        return item is not None

    return writes.retry(attempt)


class ReservedDomains(EditableResource):
    """Reserved domains. More endpoints remove fields, or request a check that the account owns a domain."""

    def endpoints(self) -> tuple[Endpoint, ...]:
        path = self.kind.item_path
        verify = {"body": NoFields, "response": self.response, "errors": (Conflict, RateLimited)}
        return (
            *super().endpoints(),
            self.endpoint("DELETE", f"{path}/certificate", 204, self.delete_certificate, show=self.show),
            self.endpoint("DELETE", f"{path}/certificate_management_policy", 204, self.delete_policy, show=self.show),
            self.endpoint("POST", f"{path}/verify", 202, self.verify, **verify),
        )

    def patch(self, call: Call) -> Item:
        return self._rewrite(call, lambda item: self.apply_changes(item, call.body))

    def apply_changes(self, item: Item, request: Shape) -> Item:
        """Return a reserved domain with the requested fields.

        Raises InvalidRequest if the domain cannot have the requested certificate or certificate policy.
        """
        new_item = super().apply_changes(item, request)
        fields = request.fields_set()
        if fields.get("certificate_id"):
            new_item = replace(new_item, body=_remove_mark(new_item.body))
        if policy := getattr(request, "certificate_management_policy", None):
            new_item = replace(new_item, body={**new_item.body, "certificate_management_policy": policy.values()})
        after = ReservedDomain.of(new_item.body)
        if fields.keys() & {"certificate_id", "certificate_management_policy"}:
            certificate_management.check(after, after.policy if policy else None)
        if fields.get("certificate_id"):
            certificate_management.check_certificate(item.account, after)
        return new_item

    def delete_certificate(self, call: Call) -> None:
        def edit(item: Item) -> Item:
            body = {**_remove_mark(item.body), "certificate_id": ""}
            # remove all references: the certificate is the only resource to which a reserved domain refers
            references = replace_references(item.references, {"": ()})
            return replace(item, body=body, references=references) if item.body.get("certificate_id") else item

        self._rewrite(call, edit)

    def delete_policy(self, call: Call) -> None:
        def edit(item: Item) -> Item:
            has_policy = item.body.get("certificate_management_policy") is not None
            return replace(item, body={**item.body, "certificate_management_policy": None}) if has_policy else item

        self._rewrite(call, edit)

    def verify(self, call: Call) -> CreatedItem:
        now = clock.seconds()

        def attempt() -> Item:
            before = self.get(call)
            stored = ReservedDomain.of(before.body)
            if stored.progress is None:
                raise Conflict("The domain is below the operator's domain for tunnels, so no proof is necessary.")
            try:
                after = reservations.set_proof(before, proofs.request_check(stored.progress, now))
            except TooSoon as soon:
                sentence = f"A check was requested less than a minute ago: wait {soon.wait} seconds."
                raise RateLimited(sentence, retry_after=soon.wait) from None
            after, entry = renewal_schedule.follow(before, after, now)
            checks = proof_checks.reschedule(before, after)
            call.change.rewrite(before, lambda _: after).add(*checks, *entry).commit()
            return after

        return CreatedItem(writes.retry(attempt))

    def _rewrite(self, call: Call, edit: Callable[[Item], Item]) -> Item:
        """Change a reserved domain, and the entry that schedules its automatic certificate. Raises NotFound."""

        def attempt() -> Item:
            before = self.get(call)
            after, entry = edit(before), list[Write]()
            if after != before:
                after, entry = renewal_schedule.follow(before, after, clock.seconds())
            return call.change.rewrite(before, lambda _: after).add(*entry).commit() or after

        return writes.retry(attempt)


RESOURCE = ReservedDomains(
    kind=kinds.RESERVED_DOMAINS,
    stored=ReservedDomain,
    create=Create,
    change=Change,
    response=ReservedDomainShown,
    to_responses=_build_responses,
    make=make,
    remove=_remove,
    errors={"POST": (UnknownReference, Conflict), "PATCH": (UnknownReference,)},
)
