"""Notes of checkpoints, as C2SP has them: the example of its signed-note format, and every way to spoil one."""

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sedml.errors import LogError
from sedml.service.log.entries import commitment, entry_hash, entry_text
from sedml.service.log.notes import Checkpoint, Signer, Verifier, parse

# The checkpoint of C2SP's tlog-cosignature.
SOFA = """example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9\
nTo+zyWE+xeMcTOAYQ8=
— witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZ\
qhf5nNo0xUe+mbIUBkBIfZ+qnA==
"""
LOG, OTHER = (Signer(f"log.example/{name}", Ed25519PrivateKey.generate()) for name in ("one", "two"))


def note_of(checkpoint, time=1_700_000_000):
    return (
        f"{checkpoint.text}\n"
        + LOG.verifier.line(LOG.sign(checkpoint))
        + OTHER.verifier.line(OTHER.cosign(checkpoint, time), time)
    )


def test_the_example_of_the_format_is_read():
    checkpoint, signatures = parse(SOFA)
    assert (checkpoint.origin, checkpoint.size) == ("example.com/behind-the-sofa", 20852163)
    assert [name for name, _ in signatures] == ["example.com/behind-the-sofa", "witness.example.com/w1"]
    stamped = signatures[1][1]
    assert (len(signatures[0][1]), len(stamped)) == (4 + 64, 4 + 8 + 64)
    assert int.from_bytes(stamped[4:12]) == 1679315147


def test_a_key_id_is_that_of_the_go_module_for_notes():
    # PeterNeumann's key of golang.org/x/mod/sumdb/note: name, id, and 0x01 with the key.
    name, known, key = ["PeterNeumann", "c74f20a3", "ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"]
    signed = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
    signature = base64.b64decode(
        "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM="
    )
    verifier = Verifier(name, base64.b64decode(key)[1:])
    assert verifier._id(b"\x01").hex() == known == signature[:4].hex()
    verifier._verify(signature[4:], signed.encode())


def test_who_has_signed_and_cosigned():
    note = note_of(Checkpoint("log.example/one", 7, bytes(32)))
    LOG.verifier.check(note)
    assert OTHER.verifier.cosigned_at(note) == 1_700_000_000
    assert OTHER.verifier.vkey.startswith("log.example/two+")
    assert "Private" not in repr(LOG)
    for wrong in (
        lambda: OTHER.verifier.check(note),
        lambda: LOG.verifier.cosigned_at(note),
        lambda: Verifier(LOG.name, OTHER.verifier.key).check(note),
        lambda: LOG.verifier.check(note.replace("\n7\n", "\n8\n")),
        lambda: OTHER.verifier.cosigned_at(note.replace("\n7\n", "\n8\n")),
    ):
        with pytest.raises(LogError):
            wrong()


def test_a_cosignature_is_of_its_time():
    checkpoint = Checkpoint("log.example/one", 7, bytes(32))
    stamped = OTHER.verifier.line(OTHER.cosign(checkpoint, 5), 6)
    with pytest.raises(LogError):
        OTHER.verifier.cosigned_at(f"{checkpoint.text}\n{stamped}")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda note: note.replace("\n7\n", "\n07\n"),
        lambda note: note.replace("\n7\n", "\n-7\n"),
        lambda note: note.replace("\n7\n", "\nseven\n"),
        lambda note: note.replace("\n7\n", "\n7\n\n"),
        lambda note: note.replace("\n\n", "\nextension\n\n"),
        lambda note: note.replace("— ", "- "),
        lambda note: note.replace("AAAA=", "AAA==", 1),
        lambda note: note + "x" * 20_000,
        lambda note: "",
    ],
)
def test_what_is_not_a_checkpoint(spoil):
    with pytest.raises(LogError):
        parse(spoil(note_of(Checkpoint("log.example/one", 7, bytes(32)))))


def test_an_entry_has_one_text_and_its_line_is_hidden_by_a_salt():
    assert entry_text({"kind": "job", "at": 1.0, "job": "ab"}) == '{"at":1.0,"job":"ab","kind":"job"}'
    line = (1.5, "teacher-1", "vote", "ab", "done")
    assert commitment(bytes(16), *line) != commitment(b"\x01" * 16, *line)
    assert entry_hash("", commitment(bytes(16), *line)) != entry_hash("{}", commitment(bytes(16), *line))
    with pytest.raises(ValueError, match="JSON"):
        entry_text({"rho": float("nan")})
