"""Changes of the unique keys that decide which account has a name. Pure."""

from collections.abc import Iterable

from chalicelib import domains
from chalicelib.model.names import base_names
from chalicelib.model.names.reservations import PROVED_DOMAIN
from edge.plan import cold_reads

# Prefixes of the partition keys (`scope`) of unique keys.
BASE_NAME, PROVED = f"{base_names.KIND}#", f"{PROVED_DOMAIN}#"


class KeyChanges:
    """The base names and proved domains with changed unique keys, from the partition keys of the changes."""

    def __init__(self, scopes: Iterable[str], tunnel_domain: str) -> None:
        every, self._tunnel_domain = list(scopes), tunnel_domain
        self._bases = {it.removeprefix(BASE_NAME) for it in every if it.startswith(BASE_NAME)}
        self._proved = [it.removeprefix(PROVED) for it in every if it.startswith(PROVED)]

    def concern(self, server_name: str) -> bool:
        """Return whether a change of these unique keys can decide which account has a name."""
        name = server_name.lower()
        if self._bases and domains.is_below(name, self._tunnel_domain):
            return cold_reads.find_base_name(name, self._tunnel_domain) in self._bases
        return any(cold_reads.is_proved_by(name, it) for it in self._proved)
