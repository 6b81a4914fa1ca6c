"""What goes wrong in a history, while its people work."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import anyio
import anyio.to_thread

from histories.history_plan import Trouble
from histories.people import Scene
from histories.site_pair import Site

__all__ = ["strike"]

COUNTED = {
    "kill": "kills",
    "term": "terminations",
    "stop": "stops",
    "cut": "links cut",
    "silence": "links silent",
    "hang up": "clients cut",
    "restore": "stores put back",
    "clock": "clock jumps",
    "worker": "workers killed",
}


async def strike(scene: Scene) -> None:
    """All troubles of the history, each at its time; afterwards all is as it should be again."""
    turns: dict[str, anyio.Lock] = defaultdict(anyio.Lock)
    async with anyio.create_task_group() as group:
        for trouble in scene.history.troubles:
            group.start_soon(_one, scene, trouble, turns)


async def _one(scene: Scene, trouble: Trouble, turns: dict[str, anyio.Lock]) -> None:
    site = scene.pair.servers[trouble.role]
    if trouble.kind == "restore":
        await _restore(scene, trouble, site, turns[site.name])
        return
    await scene.moments[trouble.moment].wait()
    await anyio.sleep(trouble.delay)
    if trouble.kind == "worker":
        scene.counts[COUNTED["worker"]] += await anyio.to_thread.run_sync(scene.pair.kill_worker, site)
        return
    if trouble.kind in ("cut", "silence", "hang up"):
        wire = scene.pair.wires[site.name if trouble.kind == "hang up" else "link"]
        begin, end, turn = (wire.stop_up if trouble.kind == "silence" else wire.cut), wire.mend, "link"
        turn = "link" if wire is scene.pair.wires["link"] else f"clients of {site.name}"
    elif trouble.kind == "clock":
        begin, end, turn = (
            (lambda: site.set_clock(trouble.ahead)),
            (lambda: site.set_clock(0.0)),
            f"clock of {site.name}",
        )
    elif trouble.kind == "stop":
        begin, end, turn = site.freeze, site.thaw, site.name
    else:
        begin, end, turn = (site.kill if trouble.kind == "kill" else site.stop), site.restart, site.name
    async with turns[turn]:
        scene.counts[COUNTED[trouble.kind]] += 1
        await _blocking(begin)
        try:
            await anyio.sleep(trouble.lasts)
        finally:
            with anyio.CancelScope(shield=True):
                await _blocking(end)


async def _restore(scene: Scene, trouble: Trouble, site: Site, turn: anyio.Lock) -> None:
    """A copy that was made before, put back while the server is down; the ledger stays as it is."""
    waited = 0.0
    if trouble.copied_at > 0.0:
        await scene.moments[trouble.moment].wait()
        waited = trouble.delay * trouble.copied_at
        await anyio.sleep(waited)
    async with scene.disk:
        copy = await anyio.to_thread.run_sync(site.copy_store, f"{id(trouble)}")
    await scene.moments[trouble.moment].wait()
    await anyio.sleep(trouble.delay - waited)
    async with turn:
        scene.counts[COUNTED["restore"]] += 1
        await _blocking(site.kill)
        await anyio.sleep(trouble.lasts)
        async with scene.disk:
            await _blocking(lambda: site.put_back(copy))
        await _blocking(site.restart)


async def _blocking(work: Callable[[], object]) -> None:
    await anyio.to_thread.run_sync(work)
