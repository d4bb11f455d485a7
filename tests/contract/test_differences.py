"""The table of differences names cases that are asked: a row of a case that has gone would say nothing."""

from tests.contract.cases import EVERY
from tests.contract.differences import DIFFERENCES


def test_every_case_has_a_name_of_its_own() -> None:
    names = [case.name for case in EVERY]
    assert len({*names}) == len(names)


def test_every_difference_is_of_a_case_and_differs_from_it_for_a_reason() -> None:
    usual = {case.name: case.expected for case in EVERY}
    for rows in DIFFERENCES.values():
        for name, row in rows.items():
            assert row.instead != usual[name]
            assert row.why.endswith(".")
