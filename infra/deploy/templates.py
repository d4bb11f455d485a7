"""CloudFormation templates, which are written as YAML."""

from typing import Any

import yaml
from samtranslator.yaml_helper import intrinsics_multi_constructor


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Parses YAML in C: samtranslator's own function takes eight times as long."""


_Loader.add_multi_constructor("!", intrinsics_multi_constructor)


def parse_template(text: str) -> Any:
    """Return a template with short functions such as !Ref in their long form."""
    return yaml.load(text, _Loader)  # noqa: S506 - it makes only plain values, like yaml.safe_load
