"""What can be wrong with a built site: links to what is not there, and resources that are fetched elsewhere."""

from __future__ import annotations

import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["faults"]

# What a browser does with these is follow them when asked, or nothing.
_FOLLOWED = {"a", "area", "form"}
_INERT_LINKS = {"canonical", "next", "prev", "alternate", "license", "edit"}


class _Page(HTMLParser):
    """The places of a page that can be linked to, its links, and its resources."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.resources: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take down what a tag says."""
        given = {name: value for name, value in attrs if value is not None}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        inert = tag == "link" and given.get("rel") in _INERT_LINKS
        for name in ("href", "src", "data", "poster"):
            if name in given:
                (self.links if tag in _FOLLOWED or inert else self.resources).append(given[name])
        for name in ("srcset", "imagesrcset"):
            self.resources += [part.split()[0] for part in given.get(name, "").split(",") if part.strip()]
        self.resources += re.findall(r"url\(['\"]?([^'\")]+)", given.get("style", ""))


@cache
def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def faults(site: Path) -> list[str]:
    """One line for everything that is wrong; none if all is well."""
    found = []
    pages = sorted(site.rglob("*.html"))
    if not pages:
        return [f"There is no page in {site}."]
    for path in pages:
        name = path.relative_to(site)
        page = _read(path)
        found += [f"{name} fetches {one}" for one in page.resources if _is_outside(one)]
        for target in page.links + page.resources:
            if not _is_outside(target) and (why := _missing(site, path, target)):
                found.append(f"{name} links to {target}: {why}")
    for path in sorted(site.rglob("*.css")):
        fetched = re.findall(r"(?:url\(|@import\s+)['\"]?((?:https?:)?//[^'\")]+)", path.read_text(encoding="utf-8"))
        found += [f"{path.relative_to(site)} fetches {one}" for one in fetched]
    return found


def _is_outside(target: str) -> bool:
    return bool(urlsplit(target).netloc)


def _missing(site: Path, page: Path, target: str) -> str | None:
    parts = urlsplit(target)
    if parts.scheme in ("data", "mailto", "javascript"):
        return None
    if page.name == "404.html":  # served from any path, so its links start at the root
        target_file = site / unquote(parts.path).lstrip("/")
    else:
        target_file = page.parent / unquote(parts.path) if parts.path else page
    if target_file.is_dir():
        target_file /= "index.html"
    if not target_file.is_file():
        return "there is no such file"
    if parts.fragment and target_file.suffix == ".html" and unquote(parts.fragment) not in _read(target_file).anchors:
        return "there is no such place on that page"
    return None
