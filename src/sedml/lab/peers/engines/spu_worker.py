# mypy: disable-error-code="import-not-found,import-untyped"
"""SPU (SecretFlow): the job as a JAX program, compiled once, run by two or three parties over its brpc links.

The threshold check is any(n_i + g >= T), a tree of ORs over the classes; the label is a tournament written out, for
SPU's own `argmax` moves twice the bytes, and its 32-bit `max` starts from -2^31 and overflows. A compiled program has
static shapes: the label is computed for every sample, and its shares leave only where the revealed bit allows.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import slice_in_dim
from spu import api, libspu
from spu.experimental.reveal_impl import reveal
from spu.utils import frontend

from .party_processes import Answer, Foreign, Party, Turn, Work, run_parties, serve, summary

__all__ = ["play", "solve"]

_PARTIES = {"SEMI2K": 2, "CHEETAH": 2, "ABY3": 3}
_INPUTS = ["counts", "g", "g_i"]


def solve(work: Work) -> Answer:
    """`work.variant` is a protocol and a ring: SEMI2K-FM32."""
    protocol, _ = work.variant.split("-")
    parties = _PARTIES[protocol]
    inputs = [array.astype(np.int32) for array in (work.counts, work.g, work.g_i)]
    executable = _compile(work.threshold, inputs)
    io = api.Io(parties, _config(work.variant))
    shared = [io.make_shares(array, libspu.Visibility.VIS_SECRET) for array in inputs]
    program = (executable.code, list(executable.output_names))
    arguments = [(work.variant, program, [_packed(shares[rank]) for shares in shared]) for rank in range(parties)]
    turns = run_parties(play, arguments, work.repeat)
    labels = []
    for outputs in zip(*([turn.output for turn in turns_of] for turns_of in turns), strict=True):
        reached, label = (
            io.reconstruct([_unpacked(share) for share in shares]) for shares in zip(*outputs, strict=True)
        )
        labels.append(np.where(reached, label, -1))
    return summary(turns, labels, ("spu", "jax", "numpy"), rounds=None)


def play(party: Party, argument: Foreign) -> list[Turn]:
    """One party: connect, take the shares, run the program as often as asked."""
    variant, (code, outputs), shares = argument
    options = libspu.logging.LogOptions()
    options.log_level = libspu.logging.LogLevel.ERROR
    libspu.logging.setup_logging(options)
    description = libspu.link.Desc()
    for rank, port in enumerate(party.ports):
        description.add_party(f"party-{rank}", f"127.0.0.1:{port}")
    runtime = api.Runtime(libspu.link.create_brpc(description, party.rank), _config(variant))
    for name, share in zip(_INPUTS, shares, strict=True):
        runtime.set_var(name, _unpacked(share))
    executable = libspu.Executable(name="votes", input_names=_INPUTS, output_names=outputs, code=code)

    def once() -> list[Foreign]:
        runtime.run(executable)
        return [runtime.get_var(name) for name in outputs]

    turns = party.measure(once)
    return [Turn(turn.seconds, turn.received, [_packed(share) for share in turn.output]) for turn in turns]


def _config(variant: str) -> Foreign:
    protocol, field = variant.split("-")
    return libspu.RuntimeConfig(protocol=getattr(libspu.ProtocolKind, protocol), field=getattr(libspu.FieldType, field))


def _compile(threshold: int, inputs: list[Foreign]) -> Foreign:
    def votes(counts: jax.Array, g: jax.Array, g_i: jax.Array) -> tuple[jax.Array, jax.Array]:
        return reveal(_any(counts + g >= threshold)), _argmax(counts + g_i)

    secret = [libspu.Visibility.VIS_SECRET] * len(inputs)
    executable, _ = frontend.compile(
        frontend.Kind.JAX, votes, inputs, {}, _INPUTS, secret, lambda outputs: [f"out{i}" for i in range(len(outputs))]
    )
    return executable


def _any(bits: jax.Array) -> jax.Array:
    while (classes := bits.shape[0]) > 1:
        half = classes // 2
        bits = jnp.concatenate([bits[:half] | bits[half : 2 * half], bits[2 * half :]])
    return bits[0]


def _argmax(values: jax.Array) -> jax.Array:
    """Neighbours play each other, so that of equal ones the first class wins."""
    index = jnp.broadcast_to(jnp.arange(values.shape[0], dtype=values.dtype)[:, None], values.shape)
    while (classes := values.shape[0]) > 1:
        even = classes // 2 * 2
        # A stride in brackets would become a gather, which takes SPU longer than the comparison.
        (left, right), (i, j) = (
            (slice_in_dim(array, 0, even - 1, 2), slice_in_dim(array, 1, even, 2)) for array in (values, index)
        )
        less = left < right
        values = jnp.concatenate([jnp.where(less, right, left), values[even:]])
        index = jnp.concatenate([jnp.where(less, j, i), index[even:]])
    return index[0]


def _packed(share: Foreign) -> tuple[bytes, list[bytes]]:
    return share.meta, list(share.share_chunks)


def _unpacked(packed: tuple[bytes, list[bytes]]) -> Foreign:
    share = libspu.Share()
    share.meta, share.share_chunks = packed
    return share


if __name__ == "__main__":
    serve(solve)
