# mypy: disable-error-code="import-not-found,import-untyped"
"""MPyC: three parties with Shamir shares, the job on secure NumPy arrays of its narrowest secure integers.

The threshold check is any(n_i + g >= T), one product over the classes; the label is a tournament that carries the
index, which is cheaper than the unit vectors of MPyC's own `argmax`.
"""

from __future__ import annotations

import asyncio
import sys

import numpy as np

from .party_processes import Answer, Foreign, Party, Turn, Work, first_highest, run_parties, serve, summary

__all__ = ["play", "solve"]

_PARTIES = 3


def solve(work: Work) -> Answer:
    """`work.variant` is the number of parties: M3."""
    turns = run_parties(play, [work] * _PARTIES, work.repeat)
    return summary(turns, [turn.output for turn in turns[0]], ("mpyc", "gmpy2", "numpy"), rounds=None)


def play(party: Party, work: Work) -> list[Turn]:
    """One party: connect, take the shares, run the protocol as often as asked; open the labels after the clock."""
    # MPyC reads its options when it is imported.
    addresses = [option for port in party.ports for option in ("-P", f"127.0.0.1:{port}")]
    sys.argv = ["mpyc_worker", *addresses, "-I", str(party.rank), "--no-log"]
    from mpyc.runtime import mpc

    secint = mpc.SecInt(_bits(work))
    mpc.run(mpc.start())
    inputs = [mpc.input(secint.array(array), senders=0) for array in (work.margins, work.noisy)]
    mpc.run(mpc.gather(inputs))

    async def votes() -> tuple[Foreign, Foreign]:
        margins, noisy = inputs
        none = np.asarray(await mpc.output(mpc.np_prod(margins < 0, axis=0)), dtype=bool)
        if none.all():
            return ~none, None
        label = _argmax(mpc, noisy[:, np.flatnonzero(~none)])
        return ~none, await mpc.gather(label)

    async def meet() -> None:
        # The loop goes on meanwhile, for the others may still wait for what this party has to send.
        await asyncio.get_running_loop().run_in_executor(None, party.barrier.wait)

    async def opened(reached: Foreign, label: Foreign) -> Foreign:
        found = np.full(reached.shape, -1)
        if reached.any():
            found[reached] = np.asarray(await mpc.output(label), dtype=np.int64)
        return found

    turns = party.measure(lambda: mpc.run(votes()), lambda: mpc.run(meet()))
    return [Turn(turn.seconds, turn.received, mpc.run(opened(*turn.output))) for turn in turns]


def _bits(work: Work) -> int:
    """The narrowest signed integers that hold every difference that is compared with zero."""
    widest = max(int(np.ptp(work.noisy)), int(np.abs(work.margins).max()), int(np.abs(work.noisy).max()))
    return widest.bit_length() + 1


def _argmax(mpc: Foreign, values: Foreign) -> Foreign:
    index = np.broadcast_to(np.arange(values.shape[0])[:, None], values.shape)
    both = mpc.np_stack((values, type(values)(np.array(index))))
    return first_highest(both, lambda winners, left: mpc.np_concatenate((winners, left), axis=1))


if __name__ == "__main__":
    serve(solve)
