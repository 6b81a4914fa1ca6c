"""The console in Chromium: a page that must not fail, and what a test does with it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from support.console_process import Console

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

__all__ = ["CHROMIUM", "PHONE", "WIDE", "held", "opened"]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PHONE, WIDE = {"width": 390, "height": 800}, {"width": 1280, "height": 800}


@contextmanager
def opened(browser: Browser, console: Console, size: dict[str, int] = PHONE) -> Iterator[Page]:
    """The console in a browser of its own; nothing of it may fail, be blocked, or be wider than the screen."""
    context = browser.new_context(viewport=size)
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if "Content Security" in message.text else None)
    page.goto(console.address)
    page.wait_for_selector("#tabs a")
    assert page.url.startswith(f"{console.origin}/")
    assert "token" not in page.url
    yield page
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    assert complaints == []
    context.close()


@contextmanager
def held(page: Page, pattern: str) -> Iterator[list[Route]]:
    """Calls that wait, as on a busy machine, until the test has looked."""
    from playwright.sync_api import Error

    waiting: list[Route] = []
    page.route(pattern, lambda route: waiting.append(route))
    try:
        yield waiting
    finally:
        page.unroute(pattern)
        for call in waiting:
            with suppress(Error):  # one that the page has given up by now
                call.continue_()
