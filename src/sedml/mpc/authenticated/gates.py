"""Half-gates with authenticated masks (KRRW, section 3): tables of all ANDs, and their evaluation.

Every wire has an authenticated mask m, and both may know M = value ^ m. The garbler has a label L of each wire for M =
0; that for 1 is L ^ Delta, its Delta. Write k(w) for its `own` row of the mask of w, t(w) for the evaluator's `peer`
row, so that k ^ t = m Delta, and s for the product of the masks of a and b. For an AND of a and b:

    G_0 = H(L_a, i) ^ H(L_a ^ Delta, i) ^ k(b)
    G_1 = H(L_b, j) ^ H(L_b ^ Delta, j) ^ k(a) ^ L_a            L_c = H(L_a, i) ^ H(L_b, j) ^ k(c) ^ k(s)

and the evaluator, with the active labels of a and b:

    L = H(L_a, i) ^ H(L_b, j) ^ t(c) ^ t(s) ^ M_a (G_0 ^ t(b)) ^ M_b (G_1 ^ t(a) ^ L_a)

which is L_c ^ M_c Delta; it reads M_c from the lowest bit, for that of L_c is sent along. 32 bytes and a bit an AND.

A wrong table gives a wrong label or a wrong M_c, which is found afterwards (`protocol.block`): the garbler shows its
part of [m_c] ^ [s] ^ M_a [m_b] ^ M_b [m_a], which must be M_c ^ M_a M_b. That this fails tells the garbler nothing, for
M_a and M_b are masked by the evaluator's bits. An evaluator with other M than the tables gave has no labels for them.

H(x, i) = pi(pi(x) ^ i) ^ pi(x), pi AES-128 under a public key of its own: TMMO (Guo, Katz, Wang & Yu, IEEE S&P 2020),
circular correlation robust in the ideal-permutation model. A tweak has the place of the operand in the block, and the
block, so none is used twice under one Delta. Where M is 0 for sure (masks that are the input itself) the label for 0
may be known, even 0: its other label, Delta, is never the active one.
"""

from __future__ import annotations

import numpy as np

from sedml.mpc.authenticated.authenticated_bits import Bytes, Words, times
from sedml.mpc.authenticated.masks import Plan
from sedml.mpc.garbling.circuit import ONE
from sedml.mpc.kernel import kernel
from sedml.mpc.permutation import permutation, permute, room_for

_KEY = b"sedml half gates"  # public
_LOWEST = np.uint64(1)


def garble(plan: Plan, inputs: Words, a: Words, b: Words, out: Words, delta: Words, block: int) -> tuple[Words, Words]:
    """Labels for M = 0 of the inputs, uint64[inputs, samples, 2] -> tables [2, ands, samples, 2], and labels of ANDs.

    a, b: the garbler's `own` rows of the operands' masks, uint64[ands, samples, 2]; out: of results ^ products.
    """
    samples = inputs.shape[1]
    tables, found = np.empty((2, *a.shape), np.uint64), np.empty_like(a)
    fast = kernel()
    if fast is not None:
        fast.garble_masked(
            fast.schedule(_KEY), plan.circuit.program, plan.circuit.wires, samples, block,
            np.ascontiguousarray(inputs), a, b, out, delta, tables, found,
        )  # fmt: skip
        return tables, found
    labels = np.zeros((plan.circuit.wires, samples, 2), np.uint64)
    labels[ONE] = delta
    labels[2 : 2 + len(inputs)] = inputs
    for layer, here in zip(plan.circuit.layers, plan.layers(), strict=True):
        for gate in layer.xors:
            np.bitwise_xor(labels[gate.a], labels[gate.b], out=labels[gate.out])
        if here.stop == here.start:
            continue
        left, right = _operands(plan, labels, here)
        i, j = _tweaks(plan, here, samples, block)
        left_hash, right_hash = _hash(left, i), _hash(right, j)
        tables[0, here] = left_hash ^ _hash(left ^ delta, i) ^ b[here]
        tables[1, here] = right_hash ^ _hash(right ^ delta, j) ^ a[here] ^ left
        found[here] = labels[plan.out[here]] = left_hash ^ right_hash ^ out[here]
    return tables, found


def evaluate(
    plan: Plan, inputs: Words, masked: Bytes, tables: Words, colours: Bytes, out: Words, block: int
) -> tuple[Words, Bytes]:
    """Active labels uint64[inputs, samples, 2] and M uint8[inputs, samples] of the inputs -> those of all ANDs.

    tables: with t(b) added to the first and t(a) to the second; out: the evaluator's `peer` rows of results ^ products;
    colours: the lowest bits of the ANDs' labels for M = 0, uint8[ands, samples].
    """
    samples = inputs.shape[1]
    found, values = np.empty_like(out), np.empty(out.shape[:-1], np.uint8)
    fast = kernel()
    if fast is not None:
        fast.evaluate_masked(
            fast.schedule(_KEY), plan.circuit.program, plan.circuit.wires, samples, block,
            np.ascontiguousarray(inputs), np.ascontiguousarray(masked), tables, colours, out, found, values,
        )  # fmt: skip
        return found, values
    labels = np.zeros((plan.circuit.wires, samples, 2), np.uint64)
    known = np.zeros((plan.circuit.wires, samples), np.uint8)
    known[ONE] = 1
    labels[2 : 2 + len(inputs)], known[2 : 2 + len(inputs)] = inputs, masked
    for layer, here in zip(plan.circuit.layers, plan.layers(), strict=True):
        for gate in layer.xors:
            np.bitwise_xor(labels[gate.a], labels[gate.b], out=labels[gate.out])
            np.bitwise_xor(known[gate.a], known[gate.b], out=known[gate.out])
        if here.stop == here.start:
            continue
        left, right = _operands(plan, labels, here)
        i, j = _tweaks(plan, here, samples, block)
        active = _hash(left, i) ^ _hash(right, j) ^ out[here]
        active ^= times(known[plan.a[here]] ^ known[plan.a2[here]], tables[0, here])
        active ^= times(known[plan.b[here]] ^ known[plan.b2[here]], tables[1, here] ^ left)
        found[here] = labels[plan.out[here]] = active
        values[here] = known[plan.out[here]] = colours[here] ^ (active[..., 0] & _LOWEST).astype(np.uint8)
    return found, values


def _operands(plan: Plan, labels: Words, here: slice) -> tuple[Words, Words]:
    return labels[plan.a[here]] ^ labels[plan.a2[here]], labels[plan.b[here]] ^ labels[plan.b2[here]]


def _tweaks(plan: Plan, here: slice, samples: int, block: int) -> tuple[Words, Words]:
    """Of the left operands of these ANDs, and of the right ones: uint64[ands, samples, 2]."""
    left = np.empty((here.stop - here.start, samples, 2), np.uint64)
    left[..., 0] = np.arange(here.start * samples, here.stop * samples, dtype=np.uint64).reshape(-1, samples)
    left[..., 1] = block
    right = left.copy()
    right[..., 0] += np.uint64(plan.ands * samples)
    return left, right


def _hash(rows: Words, tweaks: Words) -> Words:
    rows = np.ascontiguousarray(rows)
    pi = permutation(_KEY)
    inner = permute(pi, rows, room_for(rows.nbytes // 16))
    return permute(pi, inner ^ tweaks, room_for(rows.nbytes // 16)) ^ inner
