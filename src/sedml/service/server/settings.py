"""Settings of a server: `server.toml` in its kit, overridden by the environment, overridden by the command line.

Durations are seconds, or "500ms", "30s", "10m", "12h", "7d"; sizes are bytes, or "512KiB", "1GiB", "2GB". A variable of
the environment is SEDML_SERVER__ and the name of the setting, such as SEDML_SERVER__MAX_SAMPLES or
SEDML_SERVER__BUDGETS__TEACHERS__EPSILON. A key that means nothing is refused, wherever it stands.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict, SettingsError

from sedml.errors import InputError, KitError
from sedml.privacy.noise import MAX_SIGMA
from sedml.privacy.unit import ORGANISATION, UNIT_NAME
from sedml.service.kits import ServerKit
from sedml.service.kits.folder import read_toml
from sedml.service.quantities import SECONDS, measured
from sedml.service.terms import Name

_PREFIX = "SEDML_SERVER__"
_BYTES = {"B": 1} | {
    f"{letter}{kind}": base**power
    for power, letter in enumerate("KMGT", start=1)
    for kind, base in (("iB", 1024), ("B", 1000))
}
_PLACES = ("data_dir", "database", "ledger")


def _measure(units: Mapping[str, float], example: str, value: object) -> object:
    """A number with a unit as a plain number; numbers are left to the checks that follow."""
    if not isinstance(value, str):
        return _number(value)
    found = measured(value, {"": 1, **units})
    if found is None:
        raise ValueError(f"a number or a text such as {example} is needed")
    return found


def _number(value: object) -> object:
    """True is no number here, whatever Python says."""
    if isinstance(value, bool):
        raise ValueError("a number is needed")
    return value


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _place_to_compute(value: object) -> object:
    if isinstance(value, str) and re.fullmatch(r"local|auto|ray://[^\s/:]+:[0-9]{1,5}", value):
        return value
    raise ValueError("'local', 'auto' or an address such as 'ray://head.example:10001' is needed")


def _duration(value: object) -> object:
    return _measure(SECONDS, "'30s', '12h' or '7d'", value)


def _size(value: object) -> object:
    return _measure(_BYTES, "'512KiB' or '1GiB'", value)


Seconds: TypeAlias = Annotated[float, BeforeValidator(_duration), Field(ge=0, le=1e10, allow_inf_nan=False)]
Timeout: TypeAlias = Annotated[Seconds, Field(gt=0)]
Size: TypeAlias = Annotated[int, BeforeValidator(_size), Field(ge=1)]
Count: TypeAlias = Annotated[int, BeforeValidator(_number), Field(ge=1)]
Positive: TypeAlias = Annotated[float, BeforeValidator(_number), Field(gt=0, allow_inf_nan=False)]
Sigma: TypeAlias = Annotated[Positive, Field(le=MAX_SIGMA)]
Port: TypeAlias = Annotated[int, BeforeValidator(_number), Field(ge=0, le=65_535)]


class Promise(BaseModel):
    """What a cohort of teachers is promised."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    epsilon: Positive
    delta: Annotated[Positive, Field(lt=1)]
    unit: Annotated[str, Field(pattern=UNIT_NAME)] = ORGANISATION
    """Whom this protects, for all jobs together: an organisation, or a patient whose data it holds."""


class Settings(BaseSettings):
    """All that an operator can set; `load_settings` fills in what follows from the kit. Durations are in seconds."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX, env_nested_delimiter="__", frozen=True, extra="forbid", hide_input_in_errors=True
    )

    host: Annotated[str, Field(min_length=1)]
    """Where it listens for clients; port 0 takes any free one."""
    port: Port
    link_host: Annotated[str, Field(min_length=1)]
    """Where S0 listens for S1, and where S1 finds S0."""
    link_port: Port
    data_dir: Path
    database: str = Field(repr=False)
    """A path or the address of a database, which may hold a password."""
    ledger: str = Field(repr=False)
    database_timeout: Timeout = 30.0
    replicated: bool = False
    """Whether others serve the same database and data folder at the same time."""
    lease: Timeout = 10.0
    """A replica that drives the jobs and is not heard of for so long is replaced."""
    budgets: dict[Name, Promise] = {}
    """The promises by cohort; a cohort that is not here is promised nothing, and no job may ask it."""

    max_data_bytes: Size = 2**30
    max_data_bytes_per_requester: Size = 4 * 2**30
    """Of all jobs of one requester whose public data is kept, and of the records of all that it ever had."""
    max_ballot_bytes_per_requester: Size = 16 * 2**30
    """Of all jobs of one requester that have ballots or may get some, as if each teacher voted on each."""
    disk_reserve: Annotated[int, BeforeValidator(_size), Field(ge=0)] = 2**30
    """Room on the disk of the data folder that public data may not use: for votes, and to delete and revoke, for which
    alone an eighth of it is."""
    max_samples: Count = 10_000_000
    max_classes: Count = 1_000
    max_ballot_bytes: Size = 2**29
    """Of the longer half of one. A teacher needs twice that of memory to cast it, and a server has four at a time."""
    min_teachers: Count = 1
    max_teachers: Count = 100_000
    """Both bound the `min_teachers` that a job may have."""
    min_sigma: Sigma = 0.01
    max_sigma: Sigma = 16_384.0
    """The most noise. A run needs a table for it: 5 MB at this sigma, and 0.3 s and 60 MB to build."""
    max_deadline: Timeout = 366 * 86_400.0
    """How far away."""
    max_open_jobs: Count = 100
    max_open_jobs_per_requester: Count = 25
    processor_share: Positive = 0.25
    """Of a processor, for what one account asks for, over time; and seconds of one that it can use ahead of that."""
    processor_burst: Timeout = 2.0
    anonymous_rate_per_second: Positive = 20.0
    anonymous_rate_burst: Count = 100
    header_timeout: Timeout = 10.0
    body_timeout: Timeout = 30.0
    max_connections: Count = 4096
    max_unknown_connections: Count = 1024
    """Connections that have not shown a good token yet."""
    max_unknown_per_address: Count = 512
    max_requests_per_account: Count = 16
    """Requests that are under way."""
    link_timeout: Timeout = 30.0
    max_blocks_under_way: Count = 3
    """Blocks of a job that runs over a far link; each takes about 300 MB."""
    compute: Annotated[str, BeforeValidator(_place_to_compute)] = "local"
    """Where the blocks of large jobs are worked on: "local", "ray://host:port", or "auto"."""
    compute_workers: Count | None = None
    """Workers at a time; as many as there are cores unless given."""
    compute_host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """Where workers on a Ray cluster find this server; port 0 takes any free one."""
    compute_port: Port = 0
    compute_kit: Path | None = None
    """Where on every node of the cluster the kit lies, unless where it lies here."""
    grace: Seconds = 7 * 86_400.0
    """A job that was not run so long after its deadline expires."""
    keep_labels: Seconds = 30 * 86_400.0
    keep_inputs: Seconds = 0.0
    """Ballots of a job that is done on both servers."""
    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower)] = "info"
    log_format: Literal["json", "console"] = "json"


def load_settings(kit: ServerKit, **overrides: Any) -> Settings:  # noqa: ANN401 - as diverse as the settings
    """The settings of a server; overrides that are None count as not given."""
    path = kit.folder / "server.toml"
    in_file = read_toml(path) if path.exists() else {}
    for key in _PLACES:
        # A path of the kit's own file starts from the kit; one from outside, from where the command runs.
        if isinstance(value := in_file.get(key), str) and "://" not in value:
            in_file[key] = str(kit.folder.absolute() / value)
    sources = {
        "the call": {key: value for key, value in overrides.items() if value is not None},
        "the environment": _environment(),
        str(path): in_file,
    }
    merged: dict[str, Any] = {
        "host": kit.host,
        "port": kit.port,
        "link_host": kit.link_host,
        "link_port": kit.link_port,
        "data_dir": str(kit.folder / "data"),
    }
    for source in reversed(sources.values()):
        merged = _update(merged, source)
    try:
        data_dir = Path(merged["data_dir"]).absolute()
    except TypeError:
        raise _refusal([{"loc": ("data_dir",), "msg": "a path is needed", "type": ""}], sources, path) from None
    merged["data_dir"] = data_dir
    merged.setdefault("database", str(data_dir / "server.db"))
    # The books go with the store where that is a database of its own; SQLite's lock is one a file, so they part there.
    served = file_of(str(merged["database"])) is None
    merged.setdefault("ledger", merged["database"] if served else str(data_dir / "ledger.db"))
    try:
        return Settings(**merged)
    except ValidationError as error:
        raise _refusal(error.errors(include_url=False, include_input=False), sources, path) from None


def file_of(where: str) -> Path | None:
    """The file of `database` or `ledger`; None for a database that is a server of its own."""
    if "://" in where and not where.startswith("sqlite"):
        return None
    return Path(where.rpartition("sqlite:///")[2])


def _environment() -> dict[str, Any]:
    for name in sorted(os.environ):
        if name.upper().startswith(_PREFIX):
            key, *inner = name[len(_PREFIX) :].lower().split("__")
            if key not in Settings.model_fields or (inner and key != "budgets"):
                raise InputError(
                    f"{name} in the environment is not a setting.", f"After {_PREFIX} comes one of: {_known()}."
                )
    try:
        return EnvSettingsSource(Settings)()
    except SettingsError:
        raise InputError(
            f"{_PREFIX}BUDGETS in the environment cannot be read.",
            f"Give JSON, or {_PREFIX}BUDGETS__TEACHERS__EPSILON and ...__DELTA.",
        ) from None


def _update(lower: dict[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """The upper one first; tables are merged key by key."""
    merged = dict(lower)
    for key, value in upper.items():
        below = merged.get(key)
        merged[key] = _update(below, value) if isinstance(below, dict) and isinstance(value, Mapping) else value
    return merged


def _refusal(errors: list[Any], sources: Mapping[str, Mapping[str, Any]], path: Path) -> InputError:
    """One error, with the name of the key and of the place where it stands; never its value."""
    # A misspelt key first: that another one is missing may follow from it.
    first = min(errors, key=lambda error: error["type"] != "extra_forbidden")
    place = _place(first["loc"], sources)
    key = ".".join(map(str, first["loc"])).removesuffix(".[key]")
    if place == "the environment":
        key = _PREFIX + key.replace(".", "__").upper()
    kind = KitError if place == str(path) else InputError
    if first["type"] == "missing":
        return kind(f"{key} is missing in {place}.", "Give it, or leave out the whole table.")
    if first["type"] != "extra_forbidden":
        return kind(f"{key} in {place} cannot be used: {first['msg'].removeprefix('Value error, ')}.", "Correct it.")
    if len(first["loc"]) > 1 and first["loc"][-1] in Settings.model_fields:
        return kind(f"{key} in {place} is not a setting.", "Put it above the first table of the file.")
    return kind(f"{key} in {place} is not a setting.", f"Known settings: {_known()}.")


def _place(loc: tuple[str | int, ...], sources: Mapping[str, Mapping[str, Any]]) -> str:
    """The source that had the last word on a key, or on the nearest table around it."""
    for depth in range(len(loc), 0, -1):
        for name, source in sources.items():
            value: Any = source
            for key in loc[:depth]:
                value = value.get(key, _place) if isinstance(value, Mapping) else _place
            if value is not _place:
                return name
    return "the kit"


def _known() -> str:
    return ", ".join(sorted(Settings.model_fields))
