"""The same calls without await, for scripts and notebooks: also where an event loop is running already.

Each call runs in an event loop of its own, in a thread of its own, and ends with it. Signatures and docstrings are
those of the asynchronous classes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial, update_wrapper
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

from anyio.from_thread import start_blocking_portal

from sedml.service.client.administration import AsyncOperator
from sedml.service.client.async_client import AsyncClient, Where
from sedml.service.client.connection import PATIENCE
from sedml.service.client.requester import AsyncRequester
from sedml.service.client.teacher import AsyncTeacher
from sedml.service.kits import ClientKit

P = ParamSpec("P")
A = TypeVar("A")
T = TypeVar("T")


def _blocking(method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """The method of an asynchronous class as one of its blocking twin."""

    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:  # noqa: ANN401 - any of the classes below
        run: Callable[[], Coroutine[Any, Any, T]] = partial(method, self.asynchronous, *args, **kwargs)
        with start_blocking_portal() as portal:
            result: T = portal.call(run)
        return result

    update_wrapper(call, method)
    return call


def _iterating(method: Callable[Concatenate[A, P], AsyncIterator[T]]) -> Callable[Concatenate[Any, P], Iterator[T]]:
    """The same for a method that gives one thing after the other; its loop ends when nobody listens any more."""

    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:  # noqa: ANN401 - any of the classes below
        return _listened(method(self.asynchronous, *args, **kwargs))

    update_wrapper(call, method)
    return call


def _listened(events: AsyncIterator[T]) -> Iterator[T]:
    async def following() -> list[T]:
        async for event in events:
            return [event]
        return []

    with start_blocking_portal() as portal:
        while found := portal.call(following):
            yield from found


class _Client:
    """A blocking client: the asynchronous one of its class does the work."""

    _kind: ClassVar[type[AsyncClient]]

    def __init__(self, kit: ClientKit | Where, *, patience: float = PATIENCE) -> None:
        self.asynchronous = self._kind(kit, patience=patience)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.asynchronous.kit.name!r})"

    jobs = _blocking(AsyncClient.jobs)
    status = _blocking(AsyncClient.status)
    log = _blocking(AsyncClient.log)


class Teacher(_Client):
    """A teacher: `Teacher("kits/teacher-007").vote(job, model=model)`."""

    _kind = AsyncTeacher
    fetch = _blocking(AsyncTeacher.fetch)
    sample_ids = _blocking(AsyncTeacher.sample_ids)
    vote = _blocking(AsyncTeacher.vote)
    receipt = _blocking(AsyncTeacher.receipt)
    watch = _iterating(AsyncTeacher.watch)


class Requester(_Client):
    """A requester: `Requester("kits/requester-1").create("public.npz", classes=10, ...)`."""

    _kind = AsyncRequester
    create = _blocking(AsyncRequester.create)
    ask = _blocking(AsyncRequester.ask)
    resume = _blocking(AsyncRequester.resume)
    run = _blocking(AsyncRequester.run)
    labels = _blocking(AsyncRequester.labels)
    sample_ids = _blocking(AsyncRequester.sample_ids)
    delete = _blocking(AsyncRequester.delete)


class Operator(_Client):
    """An operator, of the server whose kit it is: `Operator("kits/operator-s0").jobs()`."""

    _kind = AsyncOperator
    jobs = _blocking(AsyncOperator.jobs)
    status = _blocking(AsyncOperator.status)
    delete = _blocking(AsyncOperator.delete)
    accounts = _blocking(AsyncOperator.accounts)
    add_account = _blocking(AsyncOperator.add_account)
    revoke_account = _blocking(AsyncOperator.revoke_account)
    log = _blocking(AsyncOperator.log)
    accept_restored = _blocking(AsyncOperator.accept_restored)
