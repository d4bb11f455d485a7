"""`make openapi`: write the document that the API serves, and with `--list` its short list too."""

import sys

from chalicelib.documents import openapi
from infra.build.openapi import files
from infra.build.openapi.examples import NoSample

try:
    files.write_document()
    openapi.FILE.touch()  # make compares times
except NoSample as missing:
    sys.exit(str(missing))
if "--list" in sys.argv:
    files.write_list()
