"""`make openapi`: write the document to the file that the API serves."""

import sys

from chalicelib import routes
from chalicelib.documents import openapi
from infra.build.openapi import document
from infra.build.openapi.examples import NoSample

try:
    text = document.text(routes.DOCUMENTED)
except NoSample as missing:
    sys.exit(str(missing))
openapi.FILE.write_text(text, encoding="utf-8")
