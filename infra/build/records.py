"""Writes the table of DynamoDB items in docs/operations.md: `python -m infra.build.records`.

The rows follow from the kinds of resources, and from the types in which the table stores them.
"""

import re
from dataclasses import fields

from chalicelib import modules
from chalicelib.model.base import kinds
from chalicelib.model.base.kinds import Kind
from chalicelib.model.base.records import Described
from infra import ROOT

PAGE = ROOT / "docs" / "operations.md"
_TABLE = re.compile(r"(?<=<!-- items -->\n\n).*?(?=\n\n<!-- end of items -->)", re.DOTALL)
_COMMON = {field.name for field in fields(Described)}


def main() -> None:
    """Write the table into the page."""
    PAGE.write_text(insert_table(PAGE.read_text()))


def insert_table(page: str) -> str:
    """Return the page with a new table of all stored kinds of resources."""
    rows = [_row(kind) for kind in kinds.TABLE if fields(kind.stored_type)]
    table = ["| Scope | Ids | Fields of `body` | Modules |", "|---|---|---|---|", *sorted(rows)]
    return _TABLE.sub(lambda _: "\n".join(table), page)


def _row(kind: Kind) -> str:
    scope = f"A#{kind.path}" if kind.path else "accounts"
    names = [field.name for field in fields(kind.stored_type) if field.name not in _COMMON]
    parts = [module.name for module in modules.load_all() if kind.path and module.home.rpartition("/")[0] == kind.path]
    cells = (_code([re.sub(r"{(?:edge_)?id}", "<id>", scope)]), _code([f"{kind.prefix}_"]), _code(names), _code(parts))
    return f"| {' | '.join(cells)} |"


def _code(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    main()
