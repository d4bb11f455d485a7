"""A module that lacks samples is named in a sentence."""

from dataclasses import replace
from typing import Annotated

import pytest
from pydantic import Field

from chalicelib.modules import compression
from infra.build.openapi.examples import NoSample
from tests.modules import samples

(MODULE,) = compression.MODULES


class Wider(MODULE.shape):  # type: ignore[name-defined, misc]
    level: Annotated[int, Field(description="A field.")] = 1


def test_a_module_with_its_own_response_needs_samples() -> None:
    with pytest.raises(NoSample) as error:
        samples.make(replace(MODULE, to_response=lambda module, parent, call: {}))
    sentence = f"tests/modules/samples.py lacks samples of {MODULE.path}: its response differs from the request."
    assert str(error.value) == sentence


def test_the_example_of_a_module_sets_every_field() -> None:
    with pytest.raises(NoSample) as error:
        samples.make(replace(MODULE, shape=Wider))
    assert str(error.value) == 'infra/build/openapi/examples.json: "https_edge_route_compression" lacks level.'
