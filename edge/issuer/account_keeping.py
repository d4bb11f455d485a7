"""Keeps the operator's ACME account: its key and its record in the table. Blocks."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from chalicelib import clock
from chalicelib.crypto import keys
from chalicelib.model.names import renewal_schedule
from chalicelib.model.tls import acme_accounts
from chalicelib.model.tls.acme_accounts import CaaState
from chalicelib.storage.client import aws
from edge.issuer.acme_client import AcmeClient
from edge.issuer.attempts import AttemptFailed
from edge.issuer.rules import caa, outcomes
from edge.issuer.rules.caa import CaaRecord, Wish
from edge.issuer.rules.preflight import CaAccount
from edge.process import log
from edge.process.settings import SettingError
from edge.process.tasks import PeriodicTask


def read_key(directory: str) -> EllipticCurvePrivateKey:
    """Return the key of the ACME account for the CA's `directory`.

    Create a key if there is none. Raises aws.Unavailable.
    """
    return _load(acme_accounts.find_or_create(directory, generate_key))


def generate_key() -> bytes:
    """Return a new key for an ACME account, as DER."""
    return keys.to_der(keys.generate_ecdsa("nistp256"))


def _load(der: bytes) -> EllipticCurvePrivateKey:
    key = keys.from_der(der)
    assert isinstance(key, EllipticCurvePrivateKey)  # noqa: S101 (the type that `generate_key` makes)
    return key


class AccountKeeper:
    """Keeps the record of the ACME account current. Changes the account's key if the operator requests it.

    `find_caa` blocks. It returns the CAA records of the tunnel domain, or None if they are unknown.
    """

    def __init__(
        self,
        directory: str,
        ca: AcmeClient,
        interval: float,
        find_caa: Callable[[], Sequence[CaaRecord] | None] = lambda: None,
    ) -> None:
        self._directory, self._ca, self._interval, self._find_caa = directory, ca, interval, find_caa

    async def serve(self) -> None:
        """Keep the record of the ACME account current, until cancelled.

        Raises SettingError after a change of the key, because the issuer must start again.
        """

        async def run() -> None:
            await asyncio.to_thread(self.keep)

        await PeriodicTask("account", run, self._interval, failures=aws.AwsError).run()

    def keep(self) -> None:
        """Update the record of the ACME account. Change the key if that was requested.

        Raises SettingError, aws.AwsError.
        """
        if not self._ca.has_key(read_key(self._directory)):
            raise SettingError("Another issuer has changed the key of the ACME account: start this issuer again.")
        try:
            authority = self._ca.authority
        except AttemptFailed as failed:  # `keep` repeats the request later
            log.event("ca_failed", code=failed.failure.code, reason=failed.reason)
            return
        account = acme_accounts.find(self._directory)
        if account is None:
            return
        state = self._check_caa(authority) or account.caa
        current = replace(account, url=authority.account_url, identities=[*authority.identities], caa=state)
        if current.url != account.url:
            self._order_again()
        if current != account:
            acme_accounts.describe(current)
        if account.rotates:
            self._rotate()

    def _order_again(self) -> None:
        """Repeat orders that failed for a reason of the service, such as a replaced ACME account."""
        for entry in renewal_schedule.list_entries():
            if entry.renewal.error_code in outcomes.OF_THE_SERVICE:
                renewal_schedule.order_now(entry.account, entry.reservation, clock.seconds())

    def _check_caa(self, authority: CaAccount) -> CaaState:
        """Return "published" if CAA records permit only this ACME account for the tunnel domain.

        Otherwise, return "missing". Return "" if the CAA records are unknown.
        """
        records = self._find_caa()
        if records is None:
            return ""
        identities = authority.identities or (acme_accounts.DEFAULT_IDENTITY,)
        wish = Wish(identities, authority.account_url, "dns-01")
        return "published" if caa.protects(records, wish) else "missing"

    def _rotate(self) -> None:
        """Change the key at the CA, and then in the table. Raises SettingError after the change."""
        acme_accounts.begin_rotation(self._directory, generate_key())
        if der := acme_accounts.find_next(self._directory):
            key = _load(der)
            try:
                # an earlier issuer can have changed the key at the CA, and stopped before it changed the table
                if not self._ca.knows_key(key):
                    self._ca.change_key(key)
            except AttemptFailed as failed:
                log.event("ca_failed", code=failed.failure.code, reason=failed.reason)
                return
            acme_accounts.end_rotation(self._directory)
        raise SettingError("The key of the ACME account was changed, as requested: start the issuer again.")
