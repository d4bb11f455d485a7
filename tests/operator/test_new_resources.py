"""Names that the operator gives are checked."""

import pytest

from chalicelib.__main__ import main


@pytest.mark.parametrize("name", ["", "two\nlines"])
def test_a_name_that_would_spoil_a_list_is_refused_in_one_sentence(name: str) -> None:
    with pytest.raises(SystemExit, match=r"^The name must not be empty, begin with ="):
        main(["accounts", "create", name])
