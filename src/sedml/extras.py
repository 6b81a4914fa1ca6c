"""Which extra of the package brings a library that the core does without, and what to say where one is missing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from sedml.errors import MissingExtraError

_EXTRAS = {
    "prometheus_client": "server",
    "pydantic_settings": "server",
    "sqlalchemy": "server",
    "starlette": "console",
    "structlog": "server",
    "uvicorn": "server",
    "jinja2": "learn",
    "joblib": "learn",
    "matplotlib": "learn",
    "scipy": "learn",
    "sklearn": "learn",
    "threadpoolctl": "learn",
    "onnxruntime": "onnx",
    "psycopg": "postgres",
    "pyarrow": "parquet",
    "ray": "ray",
    "torch": "torch",
}
"""Which extra of the package brings a library that the core does without."""

_PROJECTS = {
    "prometheus_client": "prometheus-client",
    "pydantic_settings": "pydantic-settings",
    "sklearn": "scikit-learn",
    "sqlalchemy": "SQLAlchemy",
}
"""Libraries that people and package indexes know by another name than the one in an import."""


@contextmanager
def explain_missing() -> Iterator[None]:
    """Around imports of what an extra brings: if a library is not installed, say which extra that is.

    All other errors of an import pass, also that of a module which is missing from a library that is there.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in _EXTRAS or _is_installed(library):
            raise
        raise _missing(library) from None


def require_libraries(*libraries: str) -> None:
    """Raise unless these libraries are installed: ahead of work that imports them only after a while."""
    for library in libraries:
        if not _is_installed(library):
            raise _missing(library)


def _is_installed(library: str) -> bool:
    from importlib.util import find_spec  # not above: most runs never ask

    return find_spec(library) is not None


def _missing(library: str) -> MissingExtraError:
    return MissingExtraError(
        f"This needs {_PROJECTS.get(library, library)}, which is not installed.", _install(_EXTRAS[library])
    )


def _install(extra: str) -> str:
    """How to add an extra to this very environment: pip finds the package there, and fetches only the libraries."""
    from shlex import quote

    return f"Run: {quote(sys.executable or 'python')} -m pip install 'sedml-pate[{extra}]'"
