"""Making the kits of a deployment: complete, private, all or nothing."""

import os
import re
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sedml.errors import InputError, KitError
from sedml.service.kits import (
    ClientKit,
    ServerKit,
    enrol,
    load_enrolment,
    new_token,
    parse_address,
    provision,
    token_hash,
)
from sedml.service.kits.client_kit import TOKEN
from sedml.service.kits.folder import format_toml
from sedml.service.kits.provisioning import client_names

ADDRESSES = ("127.0.0.1:8440", "127.0.0.1:8441")


def everything(folder):
    return [folder, *folder.rglob("*")]


def test_every_party_gets_a_kit_and_every_server_the_hashes_of_its_own_tokens(provisioned):
    clients = {"operator-s0", "operator-s1", "teacher-001", "teacher-002", "requester-1"}
    assert {path.name for path in provisioned.iterdir()} == clients | {"s0", "s1", "authority"}
    assert {path.name for path in (provisioned / "authority").iterdir()} == {"ca.pem", "ca.key"}
    loaded = [ClientKit.load(provisioned / name) for name in sorted(clients)]
    for server in ("s0", "s1"):
        enrolled = {(one.name, one.role, one.token_hash) for one in ServerKit.load(provisioned / server).accounts}
        assert enrolled == {
            (kit.name, kit.role, token_hash(kit.servers[server].token)) for kit in loaded if server in kit.servers
        }
        assert f"operator-{'s1' if server == 's0' else 's0'}" not in {name for name, _, _ in enrolled}
    tokens = [access.token for kit in loaded for access in kit.servers.values()]
    assert len(set(tokens)) == len(tokens) == 8
    assert len({kit.secret for kit in loaded}) == len(clients)


def test_no_token_and_no_key_of_another_party_lies_in_a_server_s_kit(provisioned):
    for server in ("s0", "s1"):
        content = b"".join(path.read_bytes() for path in (provisioned / server).iterdir())
        assert b"sedml_" not in content
        for other in provisioned.iterdir():
            for name in ("server.key", "storage.key", "ca.key"):
                if other.name != server and (other / name).exists():
                    assert (other / name).read_bytes().strip() not in content


def test_only_the_owner_may_read_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        provision(tmp_path / "kits", ADDRESSES, None, 1, 1)
        enrol(tmp_path / "own", "own", "teacher", ADDRESSES, tmp_path / "kits" / "authority" / "ca.pem")
    finally:
        os.umask(before)
    for path in everything(tmp_path / "kits") + everything(tmp_path / "own"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_loopback_stays_loopback(tmp_path):
    provision(tmp_path / "kits", ("[::1]:8440", "localhost:8441"), "127.0.0.1:9000", 0, 0)
    s0, s1 = (ServerKit.load(tmp_path / "kits" / name) for name in ("s0", "s1"))
    assert (s0.host, s1.host) == ("::1", "localhost")
    assert (s0.link_host, s0.link_port) == (s1.link_host, s1.link_port) == ("127.0.0.1", 9000)
    assert ClientKit.load(tmp_path / "kits" / "operator-s0").servers["s0"].url == "https://[::1]:8440"


@pytest.mark.parametrize(("host", "listens"), [("s0.example", "0.0.0.0"), ("10.1.2.3", "0.0.0.0"), ("[fd00::1]", "::")])
def test_elsewhere_all_interfaces_are_listened_on(host, listens):
    assert parse_address(f"{host}:8440").listens == listens


def test_names_sort_as_numbers():
    assert client_names("teacher", 2) == ["teacher-001", "teacher-002"]
    names = client_names("teacher", 12_000)
    assert names[0] == "teacher-00001"
    assert names == sorted(names)
    assert client_names("requester", 2) == ["requester-1", "requester-2"]


@pytest.mark.parametrize(
    "fault", [OSError(28, "No space left on device"), KeyboardInterrupt(), InputError("No.", "No.")]
)
def test_all_or_nothing(tmp_path, monkeypatch, fault):
    def fail(*_, **__):
        assert len(list(tmp_path.rglob("kit.toml"))) == 5
        raise fault

    monkeypatch.setattr("sedml.service.kits.provisioning.issue_certificate", fail)
    with pytest.raises((InputError, KeyboardInterrupt)):
        provision(tmp_path / "kits", ADDRESSES, None, 2, 1)
    assert list(tmp_path.iterdir()) == []


def test_nothing_that_exists_is_replaced(tmp_path):
    out = tmp_path / "kits"
    out.mkdir()
    provision(out, ADDRESSES, None, 1, 1)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with pytest.raises(InputError, match="not an empty folder"):
        provision(out, ADDRESSES, None, 1, 1)
    with pytest.raises(InputError, match="not an empty folder"):
        provision(out / "s0" / "kit.toml", ADDRESSES, None, 1, 1)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    with pytest.raises(InputError, match="does not exist"):
        provision(tmp_path / "no" / "where", ADDRESSES, None, 1, 1)
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"servers": ("127.0.0.1:8440",)}, "1 servers"),
        ({"servers": ("127.0.0.1:8440", "127.0.0.1:8440")}, "share an address"),
        ({"servers": ("127.0.0.1:8440", "127.0.0.1")}, "is not the address of a server"),
        ({"servers": ('x"\nrole="y:1', "127.0.0.1:8440")}, "is not the address of a server"),
        ({"link": "127.0.0.1:8441"}, "share an address"),
        ({"link": "127.0.0.1:0"}, "is not the address of a server"),
        ({"servers": ("127.0.0.1:65500", "127.0.0.1:1")}, "cannot use port 65600"),
        ({"teachers": -1}, "teachers is -1"),
        ({"teachers": 100_001}, "teachers is 100001"),
        ({"requesters": -1}, "requesters is -1"),
        ({"days": 0}, "days is 0"),
        ({"days": 4000}, "days is 4000"),
        ({"budget": (0.0, 1e-5)}, "not a valid privacy budget"),
        ({"budget": (float("inf"), 1e-5)}, "not a valid privacy budget"),
        ({"budget": (float("nan"), 1e-5)}, "not a valid privacy budget"),
        ({"budget": (1.0, 1.0)}, "not a valid privacy budget"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, change, message):
    terms = {"servers": ADDRESSES, "link": None, "teachers": 1, "requesters": 1} | change
    with pytest.raises(InputError, match=message):
        provision(tmp_path / "kits", **terms)
    assert list(tmp_path.iterdir()) == []


def test_progress_is_told(tmp_path):
    told = []
    provision(tmp_path / "kits", ADDRESSES, None, 3, 1, progress=lambda _, done, of: told.append((done, of)))
    assert told == [(number, 6) for number in range(1, 7)]


# ---- The values -------------------------------------------------------------------------------------


def test_tokens_are_long_random_and_known_by_their_hash():
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(re.fullmatch(TOKEN, token) for token in tokens)
    assert token_hash("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert len({token_hash(token) for token in tokens}) == 100
    assert re.fullmatch("[0-9a-f]{64}", token_hash("\udcff anything"))


@given(st.text(max_size=20), st.integers(-1, 70_000))
def test_an_address_that_is_taken_reads_back_the_same_and_fits_a_kit(host, port):
    import tomllib

    try:
        address = parse_address(f"{host}:{port}")
    except InputError:
        return
    assert 0 < address.port < 65_536
    assert parse_address(address.url) == parse_address(str(address)) == address
    assert tomllib.loads(format_toml({"url": address.url}, {})) == {"url": address.url}


@given(st.text(max_size=30))
def test_a_text_is_written_so_that_it_reads_back_the_same_or_not_at_all(text):
    import tomllib

    try:
        document = format_toml({"a": text, "b": 1}, {"c.d": {"e": text, "f": 1e-5}})
    except InputError:
        assert re.search(r'["\\]|[^ -~]', text)
        return
    assert tomllib.loads(document) == {"a": text, "b": 1, "c": {"d": {"e": text, "f": 1e-5}}}


# ---- Joining later ----------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["teacher", "requester"])
def test_a_client_makes_its_own_kit_and_gives_away_hashes_only(provisioned, tmp_path, role):
    made = enrol(tmp_path / "own", "clinic-7", role, ADDRESSES, provisioned / "authority" / "ca.pem")
    kit = ClientKit.load(tmp_path / "own", role)
    assert kit.name == made.name == "clinic-7"
    assert kit.authority == (provisioned / "authority" / "ca.pem").read_bytes()
    for server in ("s0", "s1"):
        assert made.at(server).token_hash == token_hash(kit.servers[server].token)
        assert made.at(server).role == role
    public = (tmp_path / "own" / "enrolment.json").read_text()
    assert load_enrolment(tmp_path / "own" / "enrolment.json") == made
    hidden = [kit.secret.hex(), "sedml_", *(access.token for access in kit.servers.values())]
    assert not [secret for secret in hidden if secret in public]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "Clinic"}, "cannot be a name"),
        ({"name": "../clinic"}, "cannot be a name"),
        ({"role": "operator"}, "'operator' cannot be made"),
        ({"servers": ADDRESSES[:1]}, "1 servers"),
        ({"servers": (ADDRESSES[0], ADDRESSES[0])}, "same address"),
        ({"servers": (ADDRESSES[0], f"https://{ADDRESSES[0]}")}, "same address"),
        ({"authority": "s0/server.pem"}, "not the certificate of an authority"),
        ({"authority": "none.pem"}, "is missing"),
    ],
)
def test_an_enrolment_that_makes_no_sense_leaves_nothing(provisioned, tmp_path, change, message):
    terms = {"name": "clinic", "role": "teacher", "servers": ADDRESSES, "authority": "authority/ca.pem"} | change
    terms["authority"] = provisioned / terms["authority"]
    with pytest.raises(InputError, match=message):
        enrol(tmp_path / "own", **terms)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "[]", '{"name": "a"}', '{"name":"a","role":"teacher","s0":"sedml_x","s1":"y"}'])
def test_a_document_that_is_no_enrolment_is_refused(tmp_path, text):
    path = tmp_path / "enrolment.json"
    path.write_text(text)
    with pytest.raises(KitError, match="is not an enrolment") as caught:
        load_enrolment(path)
    assert "sedml_x" not in str(caught.value)
