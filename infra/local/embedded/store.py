"""The embedded cloud's state: a snapshot of all services and a journal of later changes.

Changes of DynamoDB items are written to the journal. Other changes of tables, KMS keys and stacks are rare: each one
writes a new snapshot before the client gets a response. All other services are saved only when a snapshot is written.
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

_LONG = 8 * 1024 * 1024  # maximum bytes of the journal at the start: above it, a snapshot is written
_LARGE = 64 * 1024 * 1024  # minimum bytes of the journal before a change writes a new snapshot
_READS = ("BatchGet", "Describe", "Estimate", "Get", "List", "Query", "Scan", "Search", "TransactGet", "Validate")
# first words of the KMS actions that use a key but do not change any state
_USES = ("Decrypt", "Encrypt", "Generate", "ReEncrypt", "Sign", "Verify")
_ITEMS = ("BatchExecute", "BatchWrite", "DeleteItem", "Execute", "PutItem", "TransactWrite", "UpdateItem")


class Store:
    """The emulator of this process, and the folder with its state."""

    def __init__(self, folder: Path) -> None:
        """Load the folder's state, and save all later changes there.

        Raises CommandError if a file cannot be read, with the reason and what to do. Raises OSError.
        """
        self._snapshot = folder / "state.json"
        self._turn = asyncio.Lock()
        self._owes_snapshot = False
        self._number = self._load()
        end = self._replay()
        self._recorder = Recorder(Journal(self._journal(), end))
        self._synced = end
        emulator.PERSIST_STATE = False  # otherwise, MiniStack would overwrite the files, and ignore a full disk
        for service in ("cloudformation", "dynamodb", "kms"):
            emulator.SERVICE_HANDLERS[service] = self._persist(emulator.SERVICE_HANDLERS[service])
        if end > _LONG:
            self.save()
        self._tidy()

    def save(self) -> None:
        """Write a new snapshot, unless a stack is being changed. Raises OSError: the old snapshot then stays valid."""
        if _is_stack_changing():
            return
        with self._recorder.pause() as old:
            new = Journal(self._journal(self._number + 1))
            try:
                files.write(self._snapshot, _snapshot(self._number + 1))
            except OSError:
                new.remove()
                raise
            self._recorder.journal = new
            self._number, self._synced, self._owes_snapshot = self._number + 1, 0, False
        old.close()
        self._tidy()

    def save_if_possible(self) -> None:
        """Write a snapshot, or print why this failed. The journal still contains all changes after a failure."""
        try:
            self.save()
        except OSError as error:
            print(f"No snapshot was written ({error.strerror}): the next start reads the journal.", file=sys.stderr)

    async def sync_each_second(self) -> None:
        """Sync the journal to disk each second: a power failure loses at most one second."""
        while True:
            await asyncio.sleep(1)
            if (end := self._recorder.journal.end) != self._synced:
                with suppress(OSError):
                    await asyncio.to_thread(self._recorder.journal.prepare_sync())
                    self._synced = end

    def _journal(self, number: int | None = None) -> Path:
        return self._snapshot.with_name(f"journal-{self._number if number is None else number}")

    def _load(self) -> int:
        """Read the snapshot; return the number of its journal."""
        if self._snapshot.exists():
            saved = _read_json(self._snapshot)
            for name, module in emulator._state_map.items():
                if state := saved["services"].get(name):
                    emulator._get_module(module).load_persisted_state(state)
            return int(saved["journal"])
        if any(self._snapshot.parent.glob("*.json")):
            raise CommandError(
                f"The state in {self._snapshot.parent} was written by version 1.x: upgrade it to 2.0.0 first "
                "('Upgrading' in infra/README.md), or delete it with 'make reset'."
            )
        return 0

    def _replay(self) -> int:
        """Replay the journal. Return the position after its last complete change."""
        tables = {table["TableArn"]: table for _, table in dynamodb._tables.all_items()}
        file, end = self._journal(), 0
        if not file.exists():
            return end
        for lines, end in journal.read(file):  # noqa: B007
            for line in lines:
                _apply(line, tables)
        if dropped := file.stat().st_size - end:
            print(f"The journal {file} ended in an incomplete change: {dropped} bytes were dropped.", file=sys.stderr)
        return end

    def _tidy(self) -> None:
        """Remove the journals of earlier snapshots."""
        if self._snapshot.exists():
            for file in self._snapshot.parent.glob("journal-*"):
                if file != self._journal():
                    file.unlink()

    def _persist(self, handle: Handler) -> Handler:
        """Return a service's handler that saves its changes before it answers."""

        async def handle_and_save(
            method: str, path: str, headers: dict[str, str], body: bytes, query: dict[str, list[str]]
        ) -> Answer:
            action = _action(headers, body)
            if action.startswith((*_READS, *_USES)) and not self._owes_snapshot:
                return await handle(method, path, headers, body, query)
            async with self._turn:
                try:
                    with self._recorder.change():
                        answer = await handle(method, path, headers, body, query)
                    self._save_if_due(action, answer[0])
                except OSError as error:
                    return _answer_unavailable(error, headers)
                return answer

        return handle_and_save

    def _save_if_due(self, action: str, status: int) -> None:
        """Write a snapshot if the action requires it. Raises OSError."""
        if action.startswith(_ITEMS):
            if self._recorder.journal.end > max(_LARGE, 2 * self._snapshot.stat().st_size):
                self.save_if_possible()
        elif status < 300 and not action.startswith((*_READS, *_USES)):
            self._owes_snapshot = True
        if self._owes_snapshot:
            self.save()


def _is_stack_changing() -> bool:
    """Return whether a stack is being changed. A process that starts from a snapshot could not continue the change."""
    return any(stack["StackStatus"].endswith("_IN_PROGRESS") for _, stack in cloudformation._stacks.all_items())


def _snapshot(number: int) -> str:
    """Return the state of all services as JSON, with the number of the next journal."""
    states = {name: state() for name, state in emulator._build_persistence_save_dict().items()}
    snapshot = {"journal": number, "services": {name: state for name, state in states.items() if state is not None}}
    return json.dumps(snapshot, default=persistence._json_default, separators=(",", ":"))


def _apply(line: Line, tables: Mapping[str, Any]) -> None:
    """Store or remove the item that a line of the journal describes, unless its table no longer exists."""
    if line.table in tables:
        if line.item is None:
            dynamodb._remove_item(tables[line.table], line.hash_key, line.range_key)
        else:
            dynamodb._set_item(tables[line.table], line.hash_key, line.range_key, line.item)


def _read_json(file: Path) -> dict[str, Any]:
    try:
        read: dict[str, Any] = json.loads(file.read_text(), object_hook=persistence._json_object_hook)
    except (ValueError, OSError) as error:
        sentence = (
            f"The saved state of the emulated cloud in {file} cannot be read ({error}): repair it, or delete all "
            "state with 'make reset'."
        )
        raise CommandError(sentence) from None
    return read


def _action(headers: dict[str, str], body: bytes) -> str:
    """Return the action that a request names, for example "PutItem" or "CreateStack"."""
    if target := headers.get("x-amz-target"):
        return target.rpartition(".")[2]
    return parse_qs(body.decode("utf-8", "replace")).get("Action", [""])[0]


def _answer_unavailable(error: OSError, headers: dict[str, str]) -> Answer:
    """Return AWS's answer for a temporary failure, which clients retry."""
    sentence = f"The change cannot be saved ({error.strerror})."
    content_type, body = errors.body("ServiceUnavailable", sentence, headers.get("x-amz-target", ""))
    return 503, {"Content-Type": content_type}, body
