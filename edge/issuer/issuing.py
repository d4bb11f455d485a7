"""Builds the parts of the issuer from the settings, and starts the issuer (`python -m edge issuer`)."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import dns.name

from chalicelib.federation import addresses
from chalicelib.model.tls import acme_accounts
from chalicelib.storage.client import aws
from edge.issuer import account_keeping, issuer_settings, key_making
from edge.issuer.account_keeping import AccountKeeper
from edge.issuer.acme_client import AcmeClient, CaSettings
from edge.issuer.attempt import Attempt
from edge.issuer.checks import domain_checks
from edge.issuer.checks.domain_checks import DomainChecks
from edge.issuer.issuer import Issuer, Pace
from edge.issuer.issuer_settings import IssuerSettings
from edge.issuer.key_making import MakeKey
from edge.issuer.operator_orders import OperatorOrders
from edge.issuer.order_counts import OrderCounts
from edge.issuer.retired import Retired
from edge.issuer.rules.order_bounds import OrderBounds
from edge.issuer.txt_records import TxtRecords
from edge.process import log, memory, metrics, tasks
from edge.process.metrics import ProcessMetrics
from edge.process.progress import Progress
from edge.process.settings import SettingError, Settings
from edge.process.tasks import PeriodicTask
from edge.proofs import servers
from edge.proofs.resolver import Resolver


@dataclass(frozen=True)
class Parameters:
    """The pace, the limits on orders, the clock, and the making of keys of an issuer. Tests use other values."""

    pace: Pace = field(default_factory=Pace)
    bounds: OrderBounds = field(default_factory=OrderBounds)
    now: Callable[[], float] = time.time
    make_key: MakeKey = key_making.make_in_child


async def serve(settings: Settings, parameters: Parameters | None = None) -> None:
    """Obtain and renew certificates until cancelled. Raises SettingError."""
    memory.forbid_dumps()
    parameters = parameters or Parameters()
    config = issuer_settings.from_environment()
    Progress(settings.directory, "issuer").report("reading the key of its account")
    ca = await asyncio.to_thread(connect, config)
    attempt = _build_attempt(settings, config, ca, parameters)
    issuer = Issuer(attempt.run, attempt.counts, parameters.pace, now=parameters.now)
    retired = Retired(ca, parameters.pace.retire, now=parameters.now)

    def gauges() -> dict[str, float]:
        return {"attempts": issuer.count}

    measured = ProcessMetrics("issuer", gauges, dict, log.ISSUER_EVENTS)
    lookups = Resolver(servers.build_source(settings.dns_servers))
    find_caa = partial(domain_checks.find_caa, lookups, settings.tunnel_domain)
    account = AccountKeeper(config.directory, ca, parameters.pace.retire, find_caa)
    work = [issuer.serve(), retired.serve(), account.serve()]
    if config.orders_operator:
        work.append(_order_for_operator(settings, attempt, parameters.pace))
    async with metrics.serve_at_socket(settings.issuer_metrics_socket, measured):
        await tasks.run_all(*work)


def connect(config: IssuerSettings) -> AcmeClient:
    """Return a client for the CA with the operator's account. Raises SettingError if the store fails."""
    eab = (config.eab_kid, config.eab_hmac) if config.eab_kid else None
    try:
        key, account = account_keeping.read_key(config.directory), acme_accounts.find(config.directory)
        url = account.url if account else ""
        return AcmeClient(CaSettings(config.directory, config.contact, config.profile, config.bundle, url, eab), key)
    except aws.AwsError as error:
        raise SettingError(
            f"The store cannot be used ({error.code}): check the DynamoDB table and the KMS key."
        ) from None


async def _order_for_operator(settings: Settings, attempt: Attempt, pace: Pace) -> None:
    """Obtain and renew the operator's certificate, until cancelled."""
    assert attempt.txt  # noqa: S101 (the settings require a zone)
    assert isinstance(attempt.preflight, DomainChecks)  # noqa: S101
    orders = OperatorOrders(
        settings.tunnel_domain,
        attempt.ca,
        attempt.txt,
        attempt.preflight.check_operator,
        attempt.counts,
        claim=pace.claim,
        now=attempt.now,
    )

    async def run() -> None:
        await asyncio.to_thread(orders.run)

    await PeriodicTask("operator_certificate", run, pace.poll, failures=aws.AwsError).run()


def _build_attempt(settings: Settings, config: IssuerSettings, ca: AcmeClient, parameters: Parameters) -> Attempt:
    finder = servers.build_resolver(settings.dns_servers)

    async def find_addresses(domain: str) -> list[str]:
        return await servers.find_addresses(finder, dns.name.from_text(domain))

    checks = DomainChecks(
        lambda: ca.authority,
        Resolver(servers.build_source(settings.dns_servers)),
        find_addresses,
        (lambda _: True) if settings.dns_servers else addresses.is_public,
        config.http_port,
    )
    complete = Resolver(servers.build_complete_source(settings.dns_servers))
    txt = TxtRecords(config.dns, complete.find_without) if config.dns else None
    return Attempt(ca, checks, txt, OrderCounts(parameters.bounds), keys=parameters.make_key, now=parameters.now)
