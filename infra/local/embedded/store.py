"""The embedded cloud's state in a folder: a snapshot of all services, and the journal of the changes since.

Items are written to the journal. What else changes a table, a key or a stack is rare, and makes a new snapshot before
it is answered. Other services are in a snapshot as they are when it is made.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from ministack import app as emulator
from ministack.core import persistence
from ministack.services import cloudformation, dynamodb

from infra import CommandError
from infra.local import files
from infra.local.embedded import errors, journal
from infra.local.embedded.journal import Journal, Line
from infra.local.embedded.recorder import Recorder

Answer = tuple[int, dict[str, str], bytes]
Handler = Callable[[str, str, dict[str, str], bytes, dict[str, list[str]]], Awaitable[Answer]]

_LONG = 8 * 1024 * 1024  # bytes of a journal, from which on a start makes a snapshot
_LARGE = 64 * 1024 * 1024  # and from which on a change does
_READS = ("BatchGet", "Describe", "Estimate", "Get", "List", "Query", "Scan", "Search", "TransactGet", "Validate")
_USES = ("Decrypt", "Encrypt", "Generate", "ReEncrypt", "Sign", "Verify")  # of a key, which stays as it is
_ITEMS = ("BatchExecute", "BatchWrite", "DeleteItem", "Execute", "PutItem", "TransactWrite", "UpdateItem")


class Store:
    """The emulator of this process, and the folder that keeps what it holds."""

    def __init__(self, folder: Path) -> None:
        """Take up what the folder keeps, and keep there what changes from now on.

        Raises CommandError when that cannot be read: which file, why, and what to do. Raises OSError.
        """
        self._snapshot = folder / "state.json"
        self._first_form = [file for file in folder.glob("*.json") if file != self._snapshot]
        self._turn = asyncio.Lock()
        self._owes_snapshot = False
        self._number = self._load()
        end = self._replay()
        self._recorder = Recorder(Journal(self._journal(), end))
        self._synced = end
        emulator.PERSIST_STATE = False  # it would save by itself, over what is there, and say nothing of a full disk
        for service in ("cloudformation", "dynamodb", "kms"):
            emulator.SERVICE_HANDLERS[service] = self._keeping(emulator.SERVICE_HANDLERS[service])
        if end > _LONG or self._first_form:
            self.save()
        self._tidy()

    def save(self) -> None:
        """Write a new snapshot, unless a stack is being changed. Raises OSError: then the old one stays in force."""
        if _is_under_way():
            return
        with self._recorder.paused() as old:
            new = Journal(self._journal(self._number + 1))
            try:
                files.write(self._snapshot, _all(self._number + 1))
            except OSError:
                new.remove()
                raise
            self._recorder.journal = new
            self._number, self._synced, self._owes_snapshot = self._number + 1, 0, False
        old.close()
        self._tidy()

    def save_if_possible(self) -> None:
        """Save, unless the disk is full: the journal has all of it."""
        try:
            self.save()
        except OSError as error:
            print(f"No snapshot was made ({error.strerror}): the next start reads the journal.", file=sys.stderr)

    async def sync_each_second(self) -> None:
        """Sync the journal to the disk each second: a power cut loses at most the last second."""
        while True:
            await asyncio.sleep(1)
            if (end := self._recorder.journal.end) != self._synced:
                with suppress(OSError):
                    await asyncio.to_thread(self._recorder.journal.syncing())
                    self._synced = end

    def _journal(self, number: int | None = None) -> Path:
        return self._snapshot.with_name(f"journal-{self._number if number is None else number}")

    def _load(self) -> int:
        """Read the snapshot; return the number of its journal."""
        if self._snapshot.exists():
            kept = _parsed(self._snapshot)
            for name, module in emulator._state_map.items():
                if state := kept["services"].get(name):
                    emulator._get_module(module).load_persisted_state(state)
            return int(kept["journal"])
        for file in self._first_form:  # the emulator itself would pass over what it cannot read
            _parsed(file)
        emulator._load_persisted_state()
        return 0

    def _replay(self) -> int:
        """Repeat the changes in the journal; return the byte where the last complete one ends."""
        tables = {table["TableArn"]: table for _, table in dynamodb._tables.all_items()}
        file, end = self._journal(), 0
        if not file.exists():
            return end
        for lines, end in journal.read(file):  # noqa: B007
            for line in lines:
                _apply(line, tables)
        if dropped := file.stat().st_size - end:
            told = f"The journal {file} ended in a change that is not whole: {dropped} bytes were dropped."
            print(told, file=sys.stderr)
        return end

    def _tidy(self) -> None:
        """Remove what an earlier process did not come to remove."""
        if self._snapshot.exists():
            for file in [*self._snapshot.parent.glob("journal-*"), *self._first_form]:
                if file != self._journal():
                    file.unlink()
            self._first_form = []

    def _keeping(self, handle: Handler) -> Handler:
        """Return the handler of a service, made to keep its changes before it answers."""

        async def keeping(
            method: str, path: str, headers: dict[str, str], body: bytes, query: dict[str, list[str]]
        ) -> Answer:
            action = _action(headers, body)
            if action.startswith((*_READS, *_USES)) and not self._owes_snapshot:
                return await handle(method, path, headers, body, query)
            async with self._turn:
                try:
                    with self._recorder.change():
                        answer = await handle(method, path, headers, body, query)
                    self._keep(action, answer[0])
                except OSError as error:
                    return _unavailable(error, headers)
                return answer

        return keeping

    def _keep(self, action: str, status: int) -> None:
        """Make the snapshot that is due. Raises OSError."""
        if action.startswith(_ITEMS):
            if self._recorder.journal.end > max(_LARGE, 2 * self._snapshot.stat().st_size):
                self.save_if_possible()
        elif status < 300 and not action.startswith((*_READS, *_USES)):
            self._owes_snapshot = True
        if self._owes_snapshot:
            self.save()


def _is_under_way() -> bool:
    """Tell whether a stack is being changed: a snapshot of it could not be continued."""
    return any(stack["StackStatus"].endswith("_IN_PROGRESS") for _, stack in cloudformation._stacks.all_items())


def _all(number: int) -> str:
    """Return, as JSON, what all services of the emulator hold, and the number of the journal that follows."""
    states = {name: state() for name, state in emulator._build_persistence_save_dict().items()}
    kept = {"journal": number, "services": {name: state for name, state in states.items() if state is not None}}
    return json.dumps(kept, default=persistence._json_default, separators=(",", ":"))


def _apply(line: Line, tables: Mapping[str, Any]) -> None:
    """Set or remove the item of a line of the journal; do nothing where its table is gone by now."""
    if line.table in tables:
        if line.item is None:
            dynamodb._remove_item(tables[line.table], line.hash_key, line.range_key)
        else:
            dynamodb._set_item(tables[line.table], line.hash_key, line.range_key, line.item)


def _parsed(file: Path) -> dict[str, Any]:
    try:
        read: dict[str, Any] = json.loads(file.read_text(), object_hook=persistence._json_object_hook)
    except (ValueError, OSError) as error:
        told = f"The saved state in {file} cannot be read ({error}): mend it, or forget all of it with 'make reset'."
        raise CommandError(told) from None
    return read


def _action(headers: dict[str, str], body: bytes) -> str:
    """Return the action that a request names, for example "PutItem" or "CreateStack"."""
    if target := headers.get("x-amz-target"):
        return target.rpartition(".")[2]
    return parse_qs(body.decode("utf-8", "replace")).get("Action", [""])[0]


def _unavailable(error: OSError, headers: dict[str, str]) -> Answer:
    """Return the answer of AWS when it cannot work now: clients try again, and then give up."""
    told = f"The change cannot be written down ({error.strerror})."
    content_type, body = errors.body("ServiceUnavailable", told, headers.get("x-amz-target", ""))
    return 503, {"Content-Type": content_type}, body
