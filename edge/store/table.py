"""Implements the edge's store with a DynamoDB table and a KMS key, which environment variables name."""

import os
from concurrent.futures import ThreadPoolExecutor

from chalicelib.model.names import base_names
from chalicelib.model.tunnels import gateways
from chalicelib.storage.records import change_log
from chalicelib.storage.records.change_log import Change
from edge.link.authority import Authority
from edge.process.settings import SettingError, Settings
from edge.store import link_authority
from edge.store.control_records import ControlRecords
from edge.store.gateway_records import GatewayRecords
from edge.store.records import Throttled, Unavailable
from edge.store.threads import translate_errors


class Store(GatewayRecords, ControlRecords):
    """The records that gateways and control use.

    Every method blocks. Call it in a thread with `edge.store.threads`, which translates the errors of AWS.
    """

    def __init__(self, region: str, tunnel_domain: str) -> None:
        GatewayRecords.__init__(self, region, tunnel_domain)
        ControlRecords.__init__(self, tunnel_domain)
        self._shards = ThreadPoolExecutor(len(change_log.SHARDS), "shards")

    def link_authority(self) -> Authority:
        """Return the CA for connections between edge hosts and gateways. If it does not exist, create it."""
        return link_authority.read_or_create()

    def list_changes(self, since: float) -> list[Change]:
        """Return the changes in the change log that their writers dated after a Unix time."""
        return change_log.read_since(since, self._shards)


def connect(settings: Settings) -> Store:
    """Return the store. Raises Throttled, and SettingError if the table or the key cannot be used."""
    try:
        translate_errors(lambda: _check(settings))
    except Throttled:
        raise
    except Unavailable as error:
        raise SettingError(
            f"The store cannot be used ({error}): start 'make run' first, or set AWS_ENDPOINT_URL to another store."
        ) from None
    except base_names.OtherSettingsError as error:
        raise SettingError(str(error)) from None
    return Store(settings.region, settings.tunnel_domain)


def _check(settings: Settings) -> None:
    gateways.list_gateways()
    base_names.check_given_settings(settings.tunnel_domain, os.environ.get("TCP_PORTS", "").strip())
