"""Changes of the records that decide which account has a name. This file does no I/O.

The record of a base name (a name directly below TUNNEL_DOMAIN) or of a proved domain contains the account that has it.
The store has at most one record for each.
"""

from collections.abc import Iterable

from chalicelib import domains
from chalicelib.model.names import base_names
from chalicelib.model.names.reservations import PROVED_DOMAIN
from edge.plan import cold_reads

# Prefixes of the partition keys (`scope`) of the records for base names and proved domains.
BASE_NAME, PROVED = f"{base_names.KIND}#", f"{PROVED_DOMAIN}#"


class KeyChanges:
    """The base names and proved domains with changed records. `scopes` are partition keys of changed records."""

    def __init__(self, scopes: Iterable[str], tunnel_domain: str) -> None:
        partition_keys, self._tunnel_domain = list(scopes), tunnel_domain
        self._bases = {key.removeprefix(BASE_NAME) for key in partition_keys if key.startswith(BASE_NAME)}
        self._proved = [key.removeprefix(PROVED) for key in partition_keys if key.startswith(PROVED)]

    def concern(self, server_name: str) -> bool:
        """Return whether the changed records can decide which account has a name."""
        name = server_name.lower()
        if self._bases and domains.is_below(name, self._tunnel_domain):
            return cold_reads.find_base_name(name, self._tunnel_domain) in self._bases
        return any(cold_reads.is_proved_by(name, domain) for domain in self._proved)
