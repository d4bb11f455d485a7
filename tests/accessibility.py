"""The rules of accessibility that a page in the browser violates, as axe finds them."""

from axe_selenium_python import Axe
from selenium.webdriver import Chrome


def find_violations(page: Chrome, *selectors: str) -> list[str]:
    """Return each violated rule with its first element, of the whole page or of some elements."""
    axe = Axe(page)
    axe.inject()
    report = axe.run({"include": [[selector] for selector in selectors]} if selectors else None)
    assert len(report["passes"]) > 10
    return [
        f"{violation['impact']} {violation['id']}: {violation['nodes'][0]['html']}"
        for violation in report["violations"]
    ]
