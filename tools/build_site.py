"""Gathers the pages, builds the documentation site from them, and checks every link and every resource of the result.

`make docs` runs this. The pages of the site are those in docs/, and README, CONTRIBUTING, SECURITY and CHANGELOG, which
stand at the top of the repository. In a copy of them links are turned to where each page is in the site, examples are
filled in, and so are the commands as they describe themselves and the HTTP interface as the server does.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path

from cli_page import reference
from http_page import described, endpoints
from site_faults import faults

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "build" / "pages"
SITE = ROOT / "build" / "site"
HOME = "https://github.com/sedml/sedml"

# Where a file of the repository is in the site, if not at the same place below docs/.
MOVED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "docs/results/README.md": "results.md",
}
_ABSOLUTE = re.compile(
    rf"(?:{re.escape(HOME)}/(?:blob|tree|raw)/main|https://raw\.githubusercontent\.com/sedml/sedml/main)/"
)
_LINK = re.compile(r"(\]\(|(?:src|href|srcset)=\")([^()\s\"]+)")
_INCLUDE = re.compile(r"^<!-- include: (\S+) -->$", re.M)
# Fetched by every page that the search of a site on a disk is built into; worker.js does the same from here.
_SHIM = "https://unpkg.com/iframe-worker/shim"
_MADE = {"<!-- commands -->": reference, "<!-- endpoints -->": endpoints}
_NOT_SHOWN = re.compile(r"^<!-- (?:setup|not run).*?-->\n", re.M | re.S)
_FENCED = re.compile(r"^```.*?^```$", re.M | re.S)


def gather() -> None:
    """Put a copy of every page, and of what pages show, where the site is built from."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES)
    sources = [*MOVED, *(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.md"))]
    for source in dict.fromkeys(sources):
        place = place_of(source)
        if place is None:
            raise SystemExit(f"{source} has no place in the site.")
        if source.startswith("docs/"):
            (PAGES / source.removeprefix("docs/")).unlink()
        (PAGES / place).write_text(page(source, (ROOT / source).read_text(encoding="utf-8")), encoding="utf-8")
    (PAGES / "openapi.json").write_text(json.dumps(described(), indent=1), encoding="utf-8")
    for name in ("site.css", "worker.js"):
        shutil.copy(ROOT / "tools" / name, PAGES)


def page(source: str, text: str) -> str:
    """A page of the repository as it is in the site."""
    text = _NOT_SHOWN.sub("", text)
    parts = []
    end = 0
    for fenced in _FENCED.finditer(text):  # what looks like a link in code is none
        parts += [_turn_links(source, text[end : fenced.start()]), fenced[0]]
        end = fenced.end()
    text = "".join([*parts, _turn_links(source, text[end:])])
    text = _INCLUDE.sub(lambda found: f"```python\n{(ROOT / found[1]).read_text(encoding='utf-8').rstrip()}\n```", text)
    for mark, make in _MADE.items():
        if mark in text:
            text = text.replace(mark, make())
    return text


def turned(source: str, target: str) -> str:
    """Where a link of a page goes in the site: to another page of it if there is one, else to the repository."""
    path, _, anchor = target.partition("#")
    if ours := _ABSOLUTE.match(path):
        path = path[ours.end() :]
    elif not path or re.match(r"[a-z]+:|//", path):
        return target
    else:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if not (ROOT / path).exists():
        raise SystemExit(f"{source} links to {target}, which does not exist.")
    anchor = f"#{anchor}" if anchor else ""
    here, there = place_of(source), place_of(path)
    if here is None or there is None:
        return f"{HOME}/{'tree' if (ROOT / path).is_dir() else 'blob'}/main/{path}{anchor}"
    return posixpath.relpath(there, posixpath.dirname(here) or ".") + anchor


def _turn_links(source: str, text: str) -> str:
    return _LINK.sub(lambda found: found[1] + turned(source, found[2]), text)


def place_of(path: str) -> str | None:
    """The path in the site of a file of the repository, None if it is not there."""
    if path in MOVED:
        return MOVED[path]
    if path.startswith("docs/") and (ROOT / path).is_file():
        return path.removeprefix("docs/")
    return None


def _keep_within(site: Path) -> None:
    """Let pages take the one script that they would fetch elsewhere from the site itself."""
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        up = "/" if path.name == "404.html" else "../" * (len(path.relative_to(site).parts) - 1)
        path.write_text(text.replace(_SHIM, f"{up}worker.js"), encoding="utf-8")


def main() -> None:
    """Build the site anew; exit code 1 if anything is wrong with it."""
    gather()
    shutil.rmtree(SITE, ignore_errors=True)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tools")])}
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)
    _keep_within(SITE)
    found = faults(SITE)
    if found:
        raise SystemExit("\n".join(found))
    print(f"The site is in {SITE.relative_to(ROOT)}: {len(list(SITE.rglob('*.html')))} pages. Open index.html.")


if __name__ == "__main__":
    main()
