"""Control: reads what is to be served, writes Envoy's files when it changes, and hands Envoy the private keys."""

import asyncio
import json
import time
from collections.abc import Mapping
from pathlib import Path

from edge import authority, envoy, files, hop, log, plan, secrets
from edge.authority import Authority, KeyPair
from edge.envoy_parts import Json
from edge.records import Store, Unavailable
from edge.renewed import Renewed
from edge.settings import Settings

POLL = 0.2  # seconds
_KEYS_HOLD = 60.0  # seconds until a private key is read again


class Control:
    """Keeps Envoy's files of one edge host in step with the records, and serves Envoy the private keys."""

    def __init__(self, settings: Settings, store: Store, hop_authority: Authority) -> None:
        self._settings, self._store, self._hop = settings, store, hop_authority
        self._made = {
            envoy.HOP_SECRET: Renewed(lambda: hop_authority.issue(hop.CLIENT)),
            plan.OPERATOR: _operator_pair(settings),
        }
        self._written: dict[str, str] = {}
        self._owners: dict[str, str] = {}  # of uploaded certificates
        self._pairs: dict[str, tuple[float, KeyPair | None]] = {}  # of uploaded certificates, and until when they hold

    async def serve(self) -> None:
        """Keep Envoy's files as the records want them, until cancelled."""
        with secrets.short(self._settings.directory / "secrets.sock") as place:
            async with await secrets.serve(place, self._find):
                await self._keep()

    async def _keep(self) -> None:
        self._write({"bootstrap.json": envoy.bootstrap(self._settings)})
        while True:
            await self._update()
            await asyncio.sleep(POLL)

    async def _update(self) -> None:
        try:
            served = await asyncio.to_thread(self._store.served)
        except Unavailable:
            return  # what is configured stays as it is
        self._owners = {found.id: found.account for found in served.certificates}
        self._pairs = {name: pair for name, pair in self._pairs.items() if name in self._owners}
        wanted = plan.make(served, now=int(time.time()))
        contents = envoy.files(wanted, self._settings, self._hop.pem)
        self._write(contents)
        self._forget(contents)

    def _write(self, contents: Mapping[str, Json]) -> None:
        """Write what has changed, each file in one step: Envoy looks when a file is moved into its place."""
        for name, content in contents.items():
            text = json.dumps(content)
            if self._written.get(name) != text:
                files.replace(self._settings.directory / name, text.encode(), mode=0o640)
                self._written[name] = text

    def _forget(self, contents: Mapping[str, Json]) -> None:
        for name in [name for name in self._written if name.startswith("routes-") and name not in contents]:
            (self._settings.directory / name).unlink(missing_ok=True)
            del self._written[name]

    async def _find(self, name: str) -> KeyPair | None:
        if name in self._made:
            return self._made[name].pair()
        until, pair = self._pairs.get(name, (0, None))
        if until < time.monotonic():
            pair = await self._read(name)
            self._pairs[name] = time.monotonic() + _KEYS_HOLD, pair
        return pair

    async def _read(self, name: str) -> KeyPair | None:
        account = self._owners.get(name, "")
        pair = await asyncio.to_thread(self._store.key_pair, account, name) if account else None
        if pair is None:
            log.event("certificate_missing", certificate=name)
        return pair


def _operator_pair(settings: Settings) -> Renewed:
    """Return the operator's certificate for every name of the domain: their own, or one made here."""
    if settings.certificate:
        chain, key = Path(settings.certificate), Path(settings.private_key)
        return Renewed(lambda: KeyPair(chain.read_text(), key.read_text()), [chain, key])
    local = authority.kept(settings.directory / "authority.pem", "Local tunnels", settings.tunnel_domain)
    (settings.directory / "authority.crt").write_text(local.pem)
    return Renewed(lambda: local.issue(f"*.{settings.tunnel_domain}", settings.tunnel_domain))
