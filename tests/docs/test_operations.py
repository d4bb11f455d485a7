"""docs/operations.md against the code: its table has every kind with its fields and modules."""

from chalicelib import edges, modules, resources
from infra.build import records


def test_the_table_of_items_is_generated_from_the_present_kinds() -> None:
    page = records.PAGE.read_text()
    assert records.insert_table(page) == page, "Run 'make openapi'."


def test_the_table_has_every_kind_and_module() -> None:
    rows = [line for line in records.PAGE.read_text().splitlines() if line.startswith("| `A#")]
    for resource in (*resources.load_all(), *edges.load_all()):
        scope = resource.kind.path.replace("{edge_id}", "<id>").replace("{id}", "<id>")
        (row,) = (line for line in rows if line.startswith(f"| `A#{scope}` | `{resource.kind.prefix}_` |"))
        names = [module.name for module in modules.load_all() if module.home.rpartition("/")[0] == resource.kind.path]
        assert [name for name in names if f"`{name}`" not in row] == []
