"""Settings: where they come from, which comes first, and what is said of those that make no sense."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from sedml.errors import InputError, KitError
from sedml.service.kits import ServerKit, provision
from sedml.service.server.settings import Promise, Seconds, Settings, Size, load_settings

PREFIX = "SEDML_SERVER__"
PASSWORD = "planted-password"


@pytest.fixture(scope="session")
def kits_of_servers(tmp_path_factory):
    out = tmp_path_factory.mktemp("settings") / "kits"
    provision(out, ("127.0.0.1:8440", "127.0.0.1:8441"), None, 1, 1, budget=(3.0, 1e-6))
    return out


@pytest.fixture
def kit(kits_of_servers, monkeypatch):
    for name in list(os.environ):
        if name.upper().startswith(PREFIX):
            monkeypatch.delenv(name)
    path = kits_of_servers / "s0" / "server.toml"
    before = path.read_text()
    yield ServerKit.load(kits_of_servers / "s0")
    path.write_text(before)


def put_first(kit, text):
    path = kit.folder / "server.toml"
    path.write_text(text + "\n" + path.read_text())


def test_a_new_kit_has_the_defaults_and_its_own_budget(kit):
    settings = load_settings(kit)
    assert (settings.host, settings.port) == ("127.0.0.1", 8440)
    assert (settings.link_host, settings.link_port) == ("127.0.0.1", 8540)
    assert settings.budgets == {"teachers": Promise(epsilon=3.0, delta=1e-6)}
    assert settings.data_dir == kit.folder / "data"
    assert settings.database == str(kit.folder / "data" / "server.db")
    assert settings.ledger == str(kit.folder / "data" / "ledger.db")
    assert (settings.max_data_bytes, settings.grace, settings.keep_inputs) == (2**30, 7 * 86_400, 0)


def test_without_a_file_no_cohort_is_promised_anything(kit):
    text = (kit.folder / "server.toml").read_text()
    (kit.folder / "server.toml").unlink()
    assert load_settings(kit).budgets == {}
    (kit.folder / "server.toml").write_text(text)


def test_the_call_goes_before_the_environment_before_the_file(kit, monkeypatch):
    put_first(kit, 'max_samples = 1\nmax_teachers = 1\nmax_open_jobs = 1\ngrace = "12h"')
    monkeypatch.setenv(f"{PREFIX}MAX_TEACHERS", "2")
    monkeypatch.setenv(f"{PREFIX}MAX_OPEN_JOBS", "2")
    monkeypatch.setenv(f"{PREFIX}KEEP_LABELS", "2d")
    monkeypatch.setenv(f"{PREFIX}MAX_DATA_BYTES", "10MiB")
    settings = load_settings(kit, max_open_jobs=3, host=None)
    assert (settings.max_samples, settings.max_teachers, settings.max_open_jobs) == (1, 2, 3)
    assert (settings.grace, settings.keep_labels, settings.max_data_bytes) == (43_200, 172_800, 10 * 2**20)
    assert settings.host == "127.0.0.1"


def test_budgets_of_the_environment_join_those_of_the_file(kit, monkeypatch):
    monkeypatch.setenv(f"{PREFIX}BUDGETS__TEACHERS__EPSILON", "2")
    assert load_settings(kit).budgets == {"teachers": Promise(epsilon=2, delta=1e-6)}
    monkeypatch.delenv(f"{PREFIX}BUDGETS__TEACHERS__EPSILON")
    monkeypatch.setenv(f"{PREFIX}BUDGETS", '{"clinics-b": {"epsilon": 1, "delta": 1e-9}}')
    assert load_settings(kit).budgets == {
        "teachers": Promise(epsilon=3, delta=1e-6),
        "clinics-b": Promise(epsilon=1, delta=1e-9),
    }


def test_paths_of_the_file_start_from_the_kit_and_others_from_here(kit, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    put_first(kit, 'data_dir = "store"\ndatabase = "a.db"')
    settings = load_settings(kit)
    assert settings.data_dir == kit.folder / "store"
    assert settings.database == str(kit.folder / "a.db")
    assert settings.ledger == str(kit.folder / "store" / "ledger.db")
    assert load_settings(kit, data_dir="elsewhere").data_dir == tmp_path / "elsewhere"


def test_the_ledger_goes_with_a_database_that_is_served(kit):
    address = f"postgresql://sedml:{PASSWORD}@db/sedml"
    settings = load_settings(kit, database=address)
    assert settings.ledger == settings.database == address
    assert load_settings(kit, database="sqlite:///x.db").ledger == str(kit.folder / "data" / "ledger.db")
    assert PASSWORD not in repr(settings) + str(settings)


def test_settings_cannot_be_changed(kit):
    settings = load_settings(kit)
    with pytest.raises(ValidationError):
        settings.port = 1
    with pytest.raises(ValidationError):
        settings.budgets["teachers"].epsilon = 1e9


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_smaples = 5", "max_smaples in .*server.toml is not a setting"),
        ("max_samples = 0", "max_samples in .*server.toml cannot be used"),
        ("max_samples = true", "max_samples in .*server.toml cannot be used"),
        ("port = 65536", "port in .*server.toml cannot be used"),
        ("grace = -1", "grace in"),
        ('grace = "1 week"', "grace in .*'7d'"),
        ("grace = inf", "grace in"),
        ("grace = true", "grace in"),
        ("header_timeout = 0", "header_timeout in"),
        ('max_data_bytes = "1.5B"', "max_data_bytes in"),
        ('max_data_bytes = "1gib"', "max_data_bytes in .*'1GiB'"),
        ("processor_share = nan", "processor_share in"),
        ("data_dir = 5", "data_dir in .*server.toml cannot be used"),
        ("database = 5", "database in .*server.toml cannot be used"),
        ('log_format = "xml"', "log_format in"),
        ("[budgets.other]\nepsilon = 1", "budgets.other.delta is missing in"),
        ("[budgets.other]\nepsilon = 1\ndelta = 1", "budgets.other.delta in"),
        ("[budgets.other]\nepsilon = 0\ndelta = 0.1", "budgets.other.epsilon in"),
        ('[budgets."Not A Name"]\nepsilon = 1\ndelta = 0.1', "budgets.Not A Name in"),
        ("[budgets.other]\nepsilon = 1\ndleta = 0.1", "budgets.other.dleta in .* is not a setting"),
        ("[budgets.x]\nepsilon = 1\ndelta = 0.1\nmax_samples = 5", "max_samples in .* above the first table"),
        ("[limits]\nmax_samples = 5", "limits in .*server.toml is not a setting"),
        ("max_samples =", "server.toml is not TOML"),
    ],
)
def test_the_key_and_the_file_are_named(kit, text, message):
    put_first(kit, text)
    with pytest.raises(KitError, match=f"(?s){message}"):
        load_settings(kit)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("MAX_SMAPLES", "5", f"{PREFIX}MAX_SMAPLES in the environment is not a setting"),
        ("MAX_SAMPLES__X", "5", f"{PREFIX}MAX_SAMPLES__X in the environment is not a setting"),
        ("", "5", "in the environment is not a setting"),
        ("MAX_SAMPLES", "many", f"{PREFIX}MAX_SAMPLES in the environment cannot be used"),
        ("BUDGETS", "{", f"{PREFIX}BUDGETS in the environment cannot be read"),
        ("BUDGETS__TEACHERS__EPSILON", "-1", f"{PREFIX}BUDGETS__TEACHERS__EPSILON in the environment"),
        ("BUDGETS__OTHER__DELTA", "0.1", f"{PREFIX}BUDGETS__OTHER__EPSILON is missing in the environment"),
        ("BUDGETS__OTHER__DLETA", "0.1", f"{PREFIX}BUDGETS__OTHER__DLETA in the environment is not a setting"),
    ],
)
def test_the_variable_of_the_environment_is_named(kit, monkeypatch, name, value, message):
    monkeypatch.setenv(PREFIX + name, value)
    with pytest.raises(InputError, match=message) as caught:
        load_settings(kit)
    assert not isinstance(caught.value, KitError)


def test_an_override_that_is_none_of_the_settings_is_refused(kit):
    with pytest.raises(InputError, match="prot in the call is not a setting"):
        load_settings(kit, prot=1)
    with pytest.raises(InputError, match="port in the call cannot be used"):
        load_settings(kit, port=-1)
    assert load_settings(kit, port=0).port == 0


@pytest.mark.parametrize("place", ["file", "environment", "call"])
def test_no_error_shows_a_value(kit, monkeypatch, place):
    """A password may stand in the wrong place."""
    wrong = f"postgresql://u:{PASSWORD}@h/d"
    if place == "file":
        put_first(kit, f'max_samples = "{wrong}"\ngrace = "{wrong}"\nlog_level = "{wrong}"')
    elif place == "environment":
        monkeypatch.setenv(f"{PREFIX}BUDGETS", wrong)
    with pytest.raises(InputError) as caught:
        load_settings(kit, **({"grace": wrong, "database": 5} if place == "call" else {}))
    assert PASSWORD not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@given(st.integers(0, 10**6), st.sampled_from([("ms", 1e-3), ("s", 1), ("m", 60), ("h", 3600), ("d", 86_400), ("", 1)]))
def test_durations(number, unit):
    name, seconds = unit
    adapter = TypeAdapter(Seconds)
    if number * seconds > 1e10:
        with pytest.raises(ValidationError):
            adapter.validate_python(f"{number}{name}")
    else:
        assert adapter.validate_python(f"{number}{name}") == pytest.approx(number * seconds)


@given(st.integers(1, 10**6), st.sampled_from([("B", 1), ("KB", 1000), ("KiB", 1024), ("GB", 10**9), ("TiB", 2**40)]))
def test_sizes(number, unit):
    assert TypeAdapter(Size).validate_python(f"{number}{unit[0]}") == number * unit[1]
    assert TypeAdapter(Size).validate_python(f"{number} {unit[0]}") == number * unit[1]
    assert TypeAdapter(Size).validate_python(number) == number


def test_every_default_passes_its_own_check(kit):
    settings = load_settings(kit)
    assert Settings(**settings.model_dump()) == settings
