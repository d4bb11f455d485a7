"""`make screenshot`: docs/reference.png, the page of GET /docs as Chromium shows it."""

import sys

from selenium.webdriver.support.wait import WebDriverWait

from infra import ROOT, CommandError
from infra.build import browser
from infra.build.docs import PAGE

PICTURE = ROOT / "docs" / "reference.png"
_SHOWN = "tag/SSH-user-certificates/operation/create_ssh_user_certificate"  # the operation that the picture begins with
_PATIENCE = 20  # seconds


def main() -> None:
    """Take the picture; one sentence and exit status 1 when it cannot be done."""
    try:
        with browser.opened() as chrome:
            chrome.get(f"{PAGE.as_uri()}#{_SHOWN}")
            WebDriverWait(chrome, _PATIENCE).until(browser.operations)
            chrome.save_screenshot(str(PICTURE))
    except CommandError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
