"""Says whether this commit can be released, and when everything is built, how to publish it. It uploads nothing.

`make release` runs this before the linters, the tests, the site and the distributions, and with `--built` after them.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
_HEADING = re.compile(r"^## (?P<version>\S+)(?: \((?P<date>\d{4}-\d\d-\d\d)\))?$", re.M)


def obstacles(version: str, changelog: str, changed: str, tags: list[str]) -> list[str]:
    """What stands in the way of a release; nothing if all is well.

    `changed` is what `git status --porcelain` says, `tags` are those that there are.
    """
    found = [f"The checkout has changes that are not committed:\n{changed}"] if changed.strip() else []
    newest = _HEADING.search(changelog)
    if newest is None or newest["version"] != version:
        named = newest["version"] if newest else "nothing"
        found.append(
            f"pyproject.toml says version {version}, and the newest section of CHANGELOG.md is {named}. "
            f"Give both the version to be released: `## {version} (year-month-day)`."
        )
    elif newest["date"] is None:
        found.append(f"CHANGELOG.md has no date for {version}. Write `## {version} (year-month-day)`.")
    if f"v{version}" in tags:
        found.append(f"There is a tag v{version} already. A release is never changed: take the next version.")
    return found


def uploads(version: str, files: list[str]) -> list[str]:
    """Those of `files` that PyPI takes: all of this version but wheels for one Linux only (it wants manylinux)."""
    ours = [name for name in files if name.startswith(f"sedml_pate-{version}") and name.endswith((".tar.gz", ".whl"))]
    return [name for name in sorted(ours) if not re.search(r"-linux_\w+\.whl$", name)]


def main(built: bool) -> None:
    """Exit code 1 and a sentence for each obstacle; once everything is built, the commands to publish it."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if found := obstacles(version, changelog, _git("status", "--porcelain"), _git("tag").split()):
        raise SystemExit("\n".join(found))
    if not built:
        print(f"Version {version} can be released: now the linters, all tests, the site and the distributions.")
        return
    names = uploads(version, [path.name for path in (ROOT / "dist").iterdir()])
    if not any(name.endswith(".tar.gz") for name in names):
        raise SystemExit(f"dist has no source distribution of {version}. Run `make release` from the beginning.")
    print(f"Version {version} is ready, at {_git('rev-parse', 'HEAD').strip()}. Nothing was uploaded. To publish it:\n")
    print(f"  git tag --sign v{version} --message 'Version {version}' && git push origin v{version}")
    print(f"  {sys.executable} -m twine upload {' '.join(f'dist/{name}' for name in names)}\n")
    print("A wheel for this Linux only is in dist too, with the bill of materials and SHA256SUMS: PyPI does not take")
    print("those; attach them to the tag. Once it is on PyPI, say so in docs/how-to/install.md.")


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main("--built" in sys.argv[1:])
