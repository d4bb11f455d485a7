"""The objects that all parts of the sign-in service share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from edge.sign_in.provider.limits import ExchangeLimits
from edge.sign_in.provider.provider_client import ProviderClient
from edge.sign_in.provider.provider_table import Provider
from edge.sign_in.sign_in_metrics import SignInMetrics
from edge.sign_in.sign_in_records import SignInRecords


@dataclass(frozen=True)
class Dependencies:
    """The store, the providers and their limits, a clock in Unix seconds, and the metrics."""

    records: SignInRecords
    client: ProviderClient
    providers: Mapping[str, Provider]
    limits: ExchangeLimits
    clock: Callable[[], float]
    counts: SignInMetrics
