"""`make openapi`: write the OpenAPI document that the API serves, and with `--list` docs/api.txt too."""

import sys

from chalicelib import edges, modules, resources
from chalicelib.model.edges.enforced import enforced_modules
from infra.build.openapi import budgets, files
from infra.build.openapi.budgets import OverBudget
from infra.build.openapi.examples import NoSample
from infra.build.openapi.schemas import NoDescription

try:
    budgets.check(enforced_modules.EVERY, modules.load_all(), (*resources.load_all(), *edges.load_all()))
    files.write_document()
except (NoDescription, NoSample, OverBudget) as problem:
    sys.exit(str(problem))
if "--list" in sys.argv:
    files.write_list()
