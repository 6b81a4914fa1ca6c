"""What a user of the package can rely on: its public names, and that importing it stays light."""

import ast
import doctest
import importlib
import json
import pkgutil
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import sedml
import sedml.aggregation.one_call
from sedml.errors import MissingExtraError
from sedml.extras import _EXTRAS, _PROJECTS, explain_missing, require_libraries
from sedml.privacy.ledger import Ledger
from sedml.service.server import _LIBRARIES

HEAVY = [
    "torch",
    "starlette",
    "uvicorn",
    "sqlalchemy",
    "matplotlib",
    "sklearn",
    "scipy",
    "pandas",
    "pyarrow",
    "typer",
    "rich",
    "pydantic",
    "anyio",
    "httpx2",
    "stamina",
    "structlog",
]
FOR_DEVELOPERS = ("dev", "docs", "dist")
APART = {"ray"}
"""For clusters alone, and large: whoever wants it names it, as `.ci/run` does."""


def test_all_lists_exactly_the_public_names():
    lazy = set(sedml._HOMES) | {"Progress", "__version__"}
    assert lazy == set(sedml.__all__)
    assert lazy <= set(dir(sedml))
    for name in sedml.__all__:
        assert getattr(sedml, name) is not None
    with pytest.raises(AttributeError):
        _ = sedml.no_such_name


@pytest.mark.parametrize(
    "name", [module.name for module in pkgutil.walk_packages(sedml.__path__, "sedml.") if "ledger" not in module.name]
)
def test_every_module_says_what_it_is_for_and_its_all_exists(name):
    module = importlib.import_module(name)
    assert module.__doc__, name
    for public in getattr(module, "__all__", []):
        assert hasattr(module, public), (name, public)


def test_what_begins_with_an_underscore_is_its_modules_own():
    modules = Path(sedml.__file__).parent.rglob("*.py")
    nodes = [node for path in modules for node in ast.walk(ast.parse(path.read_text("utf-8")))]
    taken = {
        f"{node.module}.{alias.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sedml")
        for alias in node.names
        if alias.name.startswith("_") and alias.name not in ("__version__", "_kernel")
    }
    assert taken == set()


ORDERED = [
    module.name
    for module in pkgutil.walk_packages(sedml.__path__, "sedml.")
    if module.ispkg and "In the order" in (importlib.import_module(module.name).__doc__ or "")
]


@pytest.mark.parametrize("name", ORDERED)
def test_a_package_that_puts_its_modules_in_order_names_all_of_them(name):
    package = importlib.import_module(name)
    modules = {module.name for module in pkgutil.iter_modules(package.__path__) if module.name != "_kernel"}
    told = set(re.findall(r"\w+", package.__doc__.partition("In the order")[2]))
    assert modules - told == set()


def test_importing_the_package_pulls_nothing_heavy():
    script = f"import sys, sedml; sedml.aggregate; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "name", ["sedml", "sedml.service.client", "sedml.service.kits", "sedml.cli", "sedml.lab.bench"]
)
def test_the_core_imports_no_library_of_an_extra(name):
    script = f"import json, sys, {name}; print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) & set(_EXTRAS) == set()


def project():
    with (Path(__file__).parents[1] / "pyproject.toml").open("rb") as stream:
        return tomllib.load(stream)["project"]


def test_a_missing_library_leads_to_the_extra_that_brings_it():
    imports = {}
    for module, names in packages_distributions().items():
        for name in names:
            imports.setdefault(canonicalize_name(name), set()).add(module)
    given = project()["optional-dependencies"].items()
    extras = {name: requirements for name, requirements in given if name not in ("all", *FOR_DEVELOPERS)}
    brought = {}
    for extra, requirements in extras.items():
        for requirement in map(Requirement, requirements):
            found = imports.get(canonicalize_name(requirement.name), {requirement.name} if extra in APART else set())
            (library,) = found & set(_EXTRAS)
            assert _PROJECTS.get(library, library) == requirement.name
            brought.setdefault(library, set()).add(extra)
    assert all(_EXTRAS[library] in extras for library, extras in brought.items())
    assert set(_EXTRAS) - set(brought) == {"joblib", "threadpoolctl"}, "what those bring along"
    assert set(_LIBRARIES) == {library for library, extras in brought.items() if "server" in extras}
    core = {canonicalize_name(Requirement(line).name) for line in project()["dependencies"]}
    assert all(imports[name].isdisjoint(_EXTRAS) for name in core)


def test_all_is_every_extra_and_dev_has_it():
    extras = project()["optional-dependencies"]
    (every,) = map(Requirement, extras["all"])
    assert every.name == project()["name"]
    assert every.extras == set(extras) - {"all", *APART, *FOR_DEVELOPERS}
    assert f"{every.name}[all]" in extras["dev"]


@pytest.mark.parametrize(
    ("script", "what"),
    [
        ("import sedml.no_such_module", "sedml.no_such_module"),
        ("import no_such_library", "no_such_library"),
        ("import sklearn.no_such_module", "sklearn.no_such_module"),  # the library is there
        ("from sqlalchemy import no_such_name", "no_such_name"),
    ],
)
def test_an_import_that_fails_for_another_reason_fails_as_it_is(script, what):
    with pytest.raises(ImportError, match=what) as caught, explain_missing():
        exec(script)
    assert not isinstance(caught.value, MissingExtraError)


def test_what_is_missing_and_what_to_do_about_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    told = r"^This needs scikit-learn, which is not installed\. Run: \S*python\S* -m pip install 'sedml-pate\[learn\]'$"
    with pytest.raises(MissingExtraError, match=told), explain_missing():
        import sklearn  # noqa: F401
    with pytest.raises(MissingExtraError, match=told):
        require_libraries("numpy", "sklearn")
    require_libraries("numpy", "sqlalchemy")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"This needs psycopg, .*'sedml-pate\[postgres\]'"):
        Ledger.open("postgresql://nobody@127.0.0.1/ledger")


def test_examples_in_docstrings_run():
    assert doctest.testmod(sedml.aggregation.one_call).failed == 0
