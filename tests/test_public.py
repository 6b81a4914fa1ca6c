"""What a user of the package can rely on: its public names, and that importing it stays light."""

import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

import sedml
import sedml.aggregation.one_call

HEAVY = [
    "torch",
    "fastapi",
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


def test_importing_the_package_pulls_nothing_heavy():
    script = f"import sys, sedml; sedml.aggregate; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_examples_in_docstrings_run():
    assert doctest.testmod(sedml.aggregation.one_call).failed == 0
