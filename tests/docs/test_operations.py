"""docs/operations.md against the code: it names every kind of record."""

from chalicelib import edges, modules, resources
from tests.conftest import ROOT

TEXT = (ROOT / "docs" / "operations.md").read_text()


def test_it_knows_every_kind_and_where_its_items_are() -> None:
    for resource in (*resources.ALL, *edges.ALL):
        scope = resource.kind.path.replace("{edge_id}", "<edge id>").replace("{id}", "<id>")
        assert f"| `A#{scope}` | `{resource.kind.prefix}_` |" in TEXT


def test_it_knows_every_module_and_what_holds_it() -> None:
    for module in modules.ALL:
        holder = module.home.rpartition("/")[0].replace("{edge_id}", "<edge id>")
        (row,) = (line for line in TEXT.splitlines() if line.startswith(f"| `A#{holder}` |"))
        assert f"`{module.name}`" in row
