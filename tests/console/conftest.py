"""Kits for all, and one deployment that the tests of the console share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sedml.service.kits import provision
from support.console_browser import CHROMIUM
from support.live_servers import SURE, Live, deployed, settings_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def kits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of servers that do not run."""
    folder = tmp_path_factory.mktemp("console") / "kits"
    provision(folder, ("127.0.0.1:1", "127.0.0.1:2"), None, 1, 1)
    return folder


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Both servers; those of cohort "wards" promised something to their patients."""
    settings = settings_of()
    for server in settings.values():
        server["budgets"]["wards"] = (*SURE, "patient")
    yield from deployed(tmp_path_factory.mktemp("live") / "kits", settings)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright  # whoever asks for it has seen that it is there

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()
