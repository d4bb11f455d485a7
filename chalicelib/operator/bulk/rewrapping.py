"""`secrets rewrap`: encrypts every secret of the table under another KMS key, while the API serves."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import click

from chalicelib.model.tenants import sealed_values
from chalicelib.operator.bulk import segments
from chalicelib.operator.bulk.progress import open_progress, progress_option, report
from chalicelib.operator.bulk.segments import Records, ScanFolder, Selection
from chalicelib.operator.command_line import CommandError, OperatorGroup
from chalicelib.storage.client import dynamodb
from chalicelib.storage.vault import Unreadable

_MAX_PASSES = 10
WARNING = (
    "Backups and recovery points that are older than this command still need the former key: "
    "do not disable or delete the key while they are stored."
)

group = OperatorGroup("secrets", help="The secrets in the table, which KMS seals.")


@dataclass(frozen=True)
class Rewrapping:
    """A run that encrypts all secrets under the key `key`. `folder` has the files of its progress."""

    key: str
    folder: Path
    report: Callable[[str], object]

    def run(self) -> Counter[str]:
        """Encrypt all secrets under the key, in passes, until a pass finds no secret under another key.

        Return counts of secrets. "found" and "unreadable" are about the last pass. "again" is the number of secrets
        that were encrypted in all passes. Raises CommandError, aws.AwsError.
        """
        again = 0
        for number in count(1):
            counts = self._run_pass(number)
            again += counts["again"]
            if not counts["again"]:
                break
            if number == _MAX_PASSES:
                raise CommandError(
                    f"A process still uses another key for new secrets: set KEY_ID of all processes to {self.key}."
                )
        return Counter({**counts, "again": again})

    def _run_pass(self, number: int) -> Counter[str]:
        purpose = {"command": "secrets rewrap", "table": dynamodb.table_name(), "key": self.key}
        folder = ScanFolder(self.folder / f"pass-{number}", purpose)
        condition = sealed_values.selection()
        selection = Selection(condition.values, {"FilterExpression": condition.text})
        segments.scan(folder, selection, self._seal, self.report)
        counts: Counter[str] = Counter()
        for line in folder.lines():
            counts.update(json.loads(line))
        return counts

    def _seal(self, records: Records) -> Iterator[str]:
        counts: Counter[str] = Counter()
        for record in records:
            for value in sealed_values.find(record):
                counts["found"] += 1
                try:
                    counts["again"] += sealed_values.seal_again(record, value, self.key)
                except Unreadable as code:
                    self.report(f"{record['scope']} {record['id']} {'.'.join(value.path)}: {code}")
                    counts["unreadable"] += 1
        yield json.dumps(counts)


@group.command("rewrap", help="Seal every secret under another key. Can be stopped and run again.")
@click.option("--key", required=True, metavar="ALIAS", help="The key, as an alias (alias/…) or an ARN.")
@progress_option
def _rewrap(key: str, folder: Path | None) -> None:
    print(WARNING, file=sys.stderr)
    with open_progress(folder) as path:
        counts = Rewrapping(key, path, report).run()
        for path_of_pass in path.glob("pass-*"):
            ScanFolder(path_of_pass, {}).remove()
    sealed = counts["found"] - counts["unreadable"]
    print(f"{counts['found']} secrets: {sealed} are sealed under {key}, {counts['again']} of them were sealed again.")
    if counts["unreadable"]:
        raise CommandError(f"{counts['unreadable']} secrets cannot be decrypted. They are listed above.")
    print(f"All secrets are sealed under {key}.")
    print(WARNING)
