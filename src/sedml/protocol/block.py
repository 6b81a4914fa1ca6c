"""Algorithm 1 with one noise on one block, as one of the two servers runs it, whatever the other does.

`preparation.prepare` makes what needs no vote. Then `answer`, for counts x = x_G + x_E in shares of garbler and
evaluator:

1. The evaluator sends x_E - r, where r are the masks of its inputs. The garbler's input is x_G + x_E - r, the
   evaluator's is r; the circuit adds the two.
2. The garbler sends M and the active labels of its inputs, and the labels of T.
3. The evaluator runs the circuit, and sends M of all ANDs with a fingerprint of their labels: it can have no others, so
   the garbler knows that these M are what its tables gave, or ends the job.
4. Only then does the garbler send the fingerprint of its part of the proof that every AND is right (`gates`); shown for
   M that the tables did not give, it would tell its masks. The evaluator compares, and ends the job if it does not fit.

4 rounds, all of whose words are uniform whatever the votes, and so is whether a check fails
(docs/explanation/protocol.md). A server that has finished has its share for the requester (`labels`); neither learns a
consensus bit or a label. M of all wires is known to both, so masks are as secret as values: they are overwritten at the
end, whatever the end is.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from sedml.errors import InputError
from sedml.mpc.authenticated.authenticated_bits import Bytes, Words, caught, fingerprint, opening_key, spread, times
from sedml.mpc.authenticated.gates import evaluate
from sedml.mpc.authenticated.outputs import mac_digest
from sedml.mpc.garbling.circuit import ONE
from sedml.mpc.ring import Array
from sedml.mpc.steps import Steps
from sedml.protocol.block_shape import Shape
from sedml.protocol.inputs import all_inputs, from_planes, to_planes
from sedml.protocol.labels import LabelShare
from sedml.protocol.preparation import Prepared
from sedml.protocol.task import Task

PROTOCOL_VERSION = 5
"""The version of what two servers say to each other, from their greetings to the label shares: raise it with every
change of a message."""


def answer(prepared: Prepared, task: Task, counts: Array) -> Steps[LabelShare]:
    """This server's share of the labels, from its shares of the counts, uint[N, Q] modulo 2^task.widths.counts."""
    if task != prepared.shape.task or counts.shape != (task.classes, prepared.shape.block.samples):
        raise InputError("The counts are not those of the block that was prepared.", "Prepare the block of this task.")
    prepared.begin()
    try:
        return (yield from _answer(prepared, counts))
    except BaseException:
        prepared.session.end()
        raise
    finally:
        prepared.wipe()


def _answer(prepared: Prepared, counts: Array) -> Steps[LabelShare]:
    role, shape, delta = prepared.session.role, prepared.shape, prepared.delta
    garbled, evaluated = prepared.garbled, prepared.evaluated
    width, mask = shape.widths.counts, np.uint64((1 << shape.widths.counts) - 1)
    halves = shape.halves(counts.astype(np.uint64) & mask)
    mine, asked = halves[role], halves[1 - role]
    masked = to_planes((asked - from_planes(evaluated.r, width)) & mask, width)
    [came] = yield "block/masked", [np.packbits(masked, bitorder="little")]
    theirs = np.unpackbits(came, count=masked.size, bitorder="little").reshape(masked.shape)
    values = to_planes((mine + from_planes(theirs, width)) & mask, width) ^ garbled.masks

    threshold = _threshold_bits(shape)
    labels = garbled.inputs.shares ^ times(values, delta)
    of_threshold = garbled.inputs.threshold ^ times(threshold, delta)
    came, their_labels, their_threshold = yield (
        "block/inputs",
        [np.packbits(values, bitorder="little"), labels, of_threshold],
    )
    their_values = np.unpackbits(came, count=values.size, bitorder="little").reshape(values.shape)
    active, found = evaluate(
        shape.plan,
        all_inputs(shape, their_labels, their_threshold),
        all_inputs(shape, their_values, threshold),
        evaluated.tables,
        evaluated.colours,
        evaluated.out,
        shape.block.index,
    )
    told = np.packbits(found, bitorder="little")
    labels_key, gates_key = (partial(_key, shape, use) for use in ("labels", "gates"))
    came, print_ = yield "block/evaluated", [told, fingerprint(labels_key(1 - role, told), active)]
    own = np.unpackbits(came, count=found.size, bitorder="little").reshape(found.shape)
    if not np.array_equal(print_, fingerprint(labels_key(role, came), garbled.labels ^ times(own, delta))):
        raise caught("labels")

    mine_wires = _all_wires(shape, values, threshold, own)
    their_wires = _all_wires(shape, their_values, threshold, found)
    words, _ = _proof(shape, mine_wires, garbled.words)
    [print_] = yield "block/correct", [fingerprint(gates_key(role, came), words)]
    words, opened = _proof(shape, their_wires, evaluated.words)
    if not np.array_equal(print_, fingerprint(gates_key(1 - role, told), words ^ (spread(opened) & delta[0]))):
        raise caught("tables")
    outputs = [wires[shape.plan.circuit.outputs] for wires in (mine_wires, their_wires)]
    public = np.stack(outputs if role == 0 else outputs[::-1]).reshape(-1) ^ prepared.sigma
    second = prepared.second
    return LabelShare(public, second.bit.copy(), mac_digest("share", second.mac), second.key.copy(), second.delta)


def _key(shape: Shape, use: str, garbler: int, told: Bytes) -> bytes:
    """The key of a fingerprint about the half that this server garbles, after M of all ANDs was told."""
    return opening_key(f"{use} of block {shape.block.index}, garbled by S{garbler}", told)


def _threshold_bits(shape: Shape) -> Bytes:
    """T, above what both servers' noise counts from; where that has too many bits no noisy count reaches it."""
    value, noise = shape.widths.value, shape.widths.noise
    return to_planes(np.array([[min(shape.task.threshold + (1 << noise), (1 << value) - 1)]]), value)[:, 0]


def _all_wires(shape: Shape, shares: Bytes, threshold: Bytes, ands: Bytes) -> Bytes:
    """M of all wires: uint8[wires, half]."""
    wires = np.zeros((shape.plan.circuit.wires, shape.half), np.uint8)
    wires[ONE] = 1
    given = all_inputs(shape, shares, threshold)
    wires[2 : 2 + len(given)] = given
    wires[shape.plan.out] = ands
    shape.plan.spread(wires)
    return wires


def _proof(shape: Shape, wires: Bytes, words: tuple[Words, ...]) -> tuple[Words, Bytes]:
    """Words of [m_c] ^ [s] ^ M_a [m_b] ^ M_b [m_a], and what these bits must be: M_c ^ M_a M_b."""
    plan = shape.plan
    a, b = wires[plan.a] ^ wires[plan.a2], wires[plan.b] ^ wires[plan.b2]
    of_a, of_b, out = words
    return out ^ (spread(a) & of_b) ^ (spread(b) & of_a), wires[plan.out] ^ (a & b)
