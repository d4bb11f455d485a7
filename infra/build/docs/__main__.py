"""`make docs`: write the page. The page contains its styles and its script, and loads no other files."""

import json
import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from chalicelib.documents import openapi
from infra.build.docs import PAGE, conventions, fields, reference

_HERE = Path(__file__).parent
# matches a whole JSON string, or a word outside of strings: the words in a string must stay unchanged
_WORD = re.compile(r'("(?:[^"\\]|\\.)*")|true|false|null')
_IN_PYTHON = {"true": "True", "false": "False", "null": "None"}

templates = Environment(
    loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
templates.filters["python"] = lambda text: _WORD.sub(lambda word: _IN_PYTHON.get(word[0], word[0]), text)
templates.filters["camel"] = lambda text, sign: "".join(word[0].upper() + word[1:] for word in text.split(sign))
templates.globals |= {
    "inline": conventions.inline,
    "kind": fields.kind,
    "bounds": fields.bounds,
    "required_first": fields.required_first,
    "also": reference.ALSO,
}

document = json.loads(openapi.FILE.read_text(encoding="utf-8"))
page = templates.get_template("page.html").render(
    document=document,
    schemas=document["components"]["schemas"],
    about={tag["name"]: tag["description"] for tag in document["tags"]},
    conventions=conventions.sections(),
    parts=reference.parts(document),
    headers=reference.parameters(document["components"]["parameters"].values()),
    style=(_HERE / "style.css").read_text(encoding="utf-8"),
    script=(_HERE / "script.js").read_text(encoding="utf-8"),
)
PAGE.write_text(page.strip() + "\n", encoding="utf-8")
