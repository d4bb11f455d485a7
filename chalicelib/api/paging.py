"""Lists: newest first, in pages that lead to one another and are never empty."""

from typing import Annotated
from urllib.parse import urlencode

from pydantic import AfterValidator, BeforeValidator

from chalicelib import ids
from chalicelib.api.fields import Shape


def _whole_number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 3 and 1 <= int(text) <= 100):
        raise ValueError("must be a whole number from 1 to 100")
    return int(text)


def _any_id(text: str) -> str:
    if not ids.is_id(text, text.partition("_")[0]):
        raise ValueError("must be an id; it need not exist any more")
    return text


class Page(Shape):
    """The query of a list."""

    before_id: Annotated[str, AfterValidator(_any_id)] | None = None
    limit: Annotated[int, BeforeValidator(_whole_number)] = 100


def next_uri(uri: str, last_id: str, page: Page) -> str:
    """The address of the page behind the one that ends with an id."""
    return f"{uri}?{urlencode({'before_id': last_id, 'limit': page.limit})}"
