"""One history from its seed: people and troubles at once, then calm, then the verdict."""

from __future__ import annotations

import os
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio
import anyio.to_thread

from histories.history_plan import draw
from histories.people import Case, Scene, fetch, operate, request, settle, states_of
from histories.site_pair import SitePair
from histories.troubles import strike
from histories.verdicts import alarms, called_about_for_ever, check, check_logs, prove, reserved
from sedml.service.states import ENDED, JobState

__all__ = ["WITHIN", "Outcome", "play"]

WITHIN = 30.0
"""Seconds in which every job must have ended once all is calm, if every process that wants a core has one."""
_BUSIEST = 8.0
"""At most so many times as long on a machine that has more to do than it has cores: Ray starts workers for seconds."""
_SWEPT = 2.0
"""As many in which the servers greet each other and look for what is due, in a hurry as they are here."""
_TROUBLES = 120.0
"""As many that all of them may take before that."""


@dataclass(frozen=True)
class Outcome:
    seed: int
    seconds: float
    counts: dict[str, int]
    violations: list[str] = field(default_factory=list)


def play(pair: SitePair, seed: int, within: float) -> Outcome:
    """The pair is good for another one unless it is spoilt."""
    history, began = draw(seed), time.monotonic()
    marks = {server.name: server.log.stat().st_size for server in pair.servers}
    violations: list[str] = []
    counts: Counter[str] = Counter({"histories": 1, f"histories on {pair.kind}": 1})

    async def all_of_it() -> None:
        scene = Scene(pair, history, [Case(plan) for plan in history.jobs], prove, counts)
        before = await anyio.to_thread.run_sync(alarms, scene)
        calls = await anyio.to_thread.run_sync(called_about_for_ever, scene)
        violations.extend(await _lived(scene, within))
        if not violations:
            violations.extend(await anyio.to_thread.run_sync(lambda: list(check(scene))))
        violations.extend(await anyio.to_thread.run_sync(lambda: list(check_logs(scene, marks))))
        raised = await anyio.to_thread.run_sync(alarms, scene) - before
        counts["alarms"] += max(raised, 0)
        calls = await anyio.to_thread.run_sync(called_about_for_ever, scene) - calls
        counts["jobs that S1 calls about for ever"] += max(calls, 0)
        if raised > 0 and not history.restores:
            violations.append(f"{raised} alarms among honest servers")

    try:
        anyio.run(all_of_it)
    except Exception:
        violations.append(traceback.format_exc())
    pair.played += 1
    pair.spoilt = bool(violations) or history.restores
    counts["histories with a store put back"] += history.restores
    return Outcome(seed, time.monotonic() - began, dict(counts), violations)


async def _lived(scene: Scene, within: float) -> list[str]:
    """Play it to its end; what did not come to one."""
    calm, ended = anyio.Event(), False
    with anyio.move_on_after(_TROUBLES + _BUSIEST * within):
        async with anyio.create_task_group() as group:
            group.start_soon(_limit_after, calm, within, group.cancel_scope)
            if scene.history.restores:
                group.start_soon(operate, scene)
            await _play_out(scene, calm)
            ended = True
            group.cancel_scope.cancel()
    if ended:
        return []
    states = await anyio.to_thread.run_sync(lambda: [(case.id, states_of(scene, case)) for case in _known(scene)])
    kept = await anyio.to_thread.run_sync(reserved, scene)
    what = "after all was calm" if calm.is_set() else "of the troubles"
    return [f"no end {what}: {states}, {'with' if kept else 'without'} a reservation"]


async def _play_out(scene: Scene, calm: anyio.Event) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(_until_calm, scene, calm)
        async with anyio.create_task_group() as people:
            for case in scene.cases:
                people.start_soon(request, scene, case)
            scene.moments["start"].set()
        for moment in scene.moments.values():  # nobody votes in a job that was turned away
            moment.set()
    known = _known(scene)
    for case in known:
        await settle(scene, case)
    await _until(lambda: all(_over(scene, case) for case in known))
    await _until(lambda: not reserved(scene))
    if any(trouble.kind == "clock" for trouble in scene.history.troubles):
        await anyio.sleep(_SWEPT)
    for case in known:
        if not case.labels and not case.delete_asked:
            states = await anyio.to_thread.run_sync(states_of, scene, case)
            if set(states) == {JobState.DONE}:
                await fetch(scene, case)


def _known(scene: Scene) -> list[Case]:
    return [case for case in scene.cases if case.terms is not None]


async def _until_calm(scene: Scene, calm: anyio.Event) -> None:
    await strike(scene)
    calm.set()


async def _limit_after(calm: anyio.Event, within: float, scope: anyio.CancelScope) -> None:
    await calm.wait()
    began = time.monotonic()
    while time.monotonic() - began < within * _busy():
        await anyio.sleep(0.5)
    scope.cancel()


def _busy() -> float:
    """How many processes want each core."""
    return min(max(os.getloadavg()[0] / (os.cpu_count() or 1), 1.0), _BUSIEST)


async def _until(true: Callable[[], bool]) -> None:
    while not await anyio.to_thread.run_sync(true):
        await anyio.sleep(0.05)


def _over(scene: Scene, case: Case) -> bool:
    return all(state is None or state in ENDED for state in states_of(scene, case))
