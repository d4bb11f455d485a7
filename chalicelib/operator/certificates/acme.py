"""Automatic certificates: the account at the CA, orders and failures, and immediate renewals."""

import os
from collections.abc import Iterator, Sequence

import click

from chalicelib import clock, domains
from chalicelib.model.names import operator_certificate, renewal_schedule
from chalicelib.model.names.renewal_schedule import RenewalEntry
from chalicelib.model.names.reservations import PROVED_DOMAIN
from chalicelib.model.tls import acme_accounts, certificate_policies, order_times
from chalicelib.model.tls.renewals import Renewal
from chalicelib.operator.command_line import CommandError, OperatorGroup, reason_option
from chalicelib.storage.records import table

_CAA = {
    "": "CAA: no issuer has checked the records yet",
    "published": "CAA published",
    "missing": "CAA missing: publish the record above, so that no other CA or account gets certificates for tunnels",
}
_MAX_LINES = 20  # the most failed orders that `acme status` lists

group = OperatorGroup("acme", help="Automatic certificates.")


def list_status(tunnel_domain: str, now: int) -> Iterator[str]:
    """Yield the lines that the command `acme status` prints. Raises CommandError, aws.Unavailable."""
    directory = os.environ.get("ACME_DIRECTORY", "").strip()
    if not directory:
        raise CommandError("ACME_DIRECTORY is not set: set it to the same value as for the issuer of certificates.")
    account = acme_accounts.find(directory)
    yield f"directory {directory}"
    yield f"account {account.url if account and account.url else 'none yet: the issuer registers it'}"
    orders = order_times.ALL
    count = len(order_times.read({"all": orders}, now)["all"])
    yield f"orders in the last three hours, without renewals: {count}; {max(0, orders.limit - count)} more are possible"
    entries = list(renewal_schedule.list_entries())
    failing = [entry for entry in entries if entry.renewal.error_code]
    running = sum(entry.renewal.is_claimed for entry in entries)
    yield f"domains {len(entries)}, running {running}, failing {len(failing)}"
    if tunnel_domain and account and account.url:
        yield f"CAA {_build_caa(tunnel_domain, account.url, account.identities)}"
        yield _CAA[account.caa]
    if tunnel_domain and certificate_policies.zone():
        yield f"alias _acme-challenge.{tunnel_domain}. CNAME {operator_certificate.alias_target()}."
        yield f"operator {_describe(operator_certificate.read_renewal().renewal)}"
    for entry in failing[:_MAX_LINES]:
        yield f"failing {entry.account} {entry.reservation} {_describe(entry.renewal)}"
    if len(failing) > _MAX_LINES:
        yield f"failing {len(failing) - _MAX_LINES} more"


def renew(domain: str) -> RenewalEntry:
    """Request an immediate renewal of a domain's certificate. Raises CommandError, aws.Unavailable."""
    reservation = table.look_up(PROVED_DOMAIN, domain)
    if not reservation:
        raise CommandError(f"No account has a reserved domain {domain} that is proved.")
    entry = renewal_schedule.order_now(reservation["account"], reservation["id"], clock.seconds())
    if entry is None:
        raise CommandError(
            f"{domain} has no certificate policy for automatic certificates, or an order for it is already running."
        )
    return entry


def _build_caa(domain: str, account_url: str, identities: Sequence[str]) -> str:
    """Return the CAA record that permits only this service's account to order certificates, with DNS challenges."""
    identity = identities[0] if identities else acme_accounts.DEFAULT_IDENTITY
    value = f"{identity}; accounturi={account_url}; validationmethods=dns-01"
    return f'{domain}. CAA 0 issue "{value}"'


def _describe(renewal: Renewal) -> str:
    """Return the state of a certificate in a few words for the list."""
    if renewal.error_code:
        retries_at = clock.rfc3339(clock.at(renewal.due_at))
        reason = f" ({renewal.reason})" if renewal.reason else ""
        return (
            f"{renewal.attempts} attempts failed, the last with {renewal.error_code}; the next is at {retries_at}: "
            f"{renewal.msg}{reason}"
        )
    return f"renews at {clock.rfc3339(clock.at(renewal.renews_at))}" if renewal.renews_at else "has no certificate"


@group.command("status", help="Show the account at the CA, orders, failures, and records to publish.")
def _status() -> None:
    tunnel_domain = os.environ.get("TUNNEL_DOMAIN", "").strip()
    for line in list_status(domains.normalize(tunnel_domain) if tunnel_domain else "", clock.seconds()):
        print(line)


@group.command("renew", help="Renew the certificate of a domain at once.")
@click.argument("domain", help="A proved domain with a policy.")
@reason_option
def _renew(domain: str) -> None:
    try:
        entry = renew(domains.normalize(domain))
    except ValueError as error:
        raise CommandError(f"{domain} {error}.") from None
    print(f"{domain} of {entry.account} is due at {clock.rfc3339(clock.at(entry.renewal.due_at))}")


@group.command("rotate", help="Change the key of the account at the CA. The issuer does it within a minute.")
@reason_option
def _rotate() -> None:
    directory = os.environ.get("ACME_DIRECTORY", "").strip()
    if not directory or not acme_accounts.request_rotation(directory):
        raise CommandError("There is no account at the CA of ACME_DIRECTORY: start python -m edge issuer.")
    print("The issuer changes the key within a minute, and then starts again.")
