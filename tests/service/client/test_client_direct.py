"""HTTP straight to a server: which connections are used, and what becomes of answers that are odd, early or cut."""

import asyncio
import ssl

import httpx2
import pytest

from sedml.mpc.channel.certificates import issue_certificate, make_authority
from sedml.service.client.secure import https
from sedml.service.server.http.https import https_context

AUTHORITY = make_authority()
CONTEXT = https_context(issue_certificate(AUTHORITY, "s0"))
HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


class Server:
    """Answers by a script, and counts its connections."""

    def __init__(self, answer) -> None:
        self.answer, self.connections, self.heads, self.tasks = answer, 0, [], []

    async def serve(self, reader, writer):
        self.connections += 1
        try:
            while True:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                if not await self.answer(reader, writer):
                    break
        except (asyncio.IncompleteReadError, OSError):
            pass  # the client has left
        finally:
            writer.transport.abort()

    def __call__(self, reader, writer):
        self.tasks.append(asyncio.create_task(self.serve(reader, writer)))

    async def stop(self):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


def play(answer, call, silence=60.0):
    """What `call` gives with a function that asks the server, and the server."""

    async def run():
        server = Server(answer)
        async with await asyncio.start_server(server, "127.0.0.1", 0, ssl=CONTEXT) as listening:
            url = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
            try:
                async with https(url, AUTHORITY.certificate) as transport:

                    async def ask(method="GET", content=None):
                        extensions = {"sni_hostname": "s0", "timeout": httpx2.Timeout(60.0, read=silence).as_dict()}
                        request = httpx2.Request(method, f"{url}/x", content=content, extensions=extensions)
                        if method == "reach":
                            return await transport.reach(request)
                        return await transport.handle_async_request(request)

                    return await call(ask), server
            finally:
                await server.stop()

    return asyncio.run(run())


def test_a_connection_made_before_is_the_one_that_is_used():
    async def call(ask):
        await ask("reach")
        assert await content(await ask()) == b"hello"
        return await content(await ask())

    found, server = play(saying(HELLO), call)
    assert (found, server.connections) == (b"hello", 1)


async def content(response):
    try:
        return b"".join([part async for part in response.aiter_bytes()])
    finally:
        await response.aclose()


def saying(data, stays=True):
    async def answer(_reader, writer):
        writer.write(data)
        await writer.drain()
        return stays

    return answer


def test_one_request_after_the_other_takes_one_connection():
    async def call(ask):
        return [await content(await ask()) for _ in range(3)]

    found, server = play(saying(HELLO), call)
    assert found == [b"hello"] * 3
    assert (server.connections, len(server.heads)) == (1, 3)


def test_requests_at_once_have_connections_of_their_own():
    async def call(ask):
        first, second = await ask(), await ask()
        return await content(first), await content(second), await content(await ask())

    found, server = play(saying(HELLO), call)
    assert found == (b"hello",) * 3
    assert server.connections == 2


@pytest.mark.parametrize(
    "answer", [HELLO.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), HELLO + b"HTTP/1.1 2"]
)
def test_a_connection_that_ends_or_says_too_much_is_not_used_again(answer):
    async def call(ask):
        return [await content(await ask()) for _ in range(2)]

    found, server = play(saying(answer), call)
    assert found == [b"hello"] * 2
    assert server.connections == 2


def test_a_connection_that_the_server_has_closed_is_not_used_again():
    async def call(ask):
        first = await ask()
        body = await first.aread()
        line = first.stream._line
        await first.aclose()
        while line.usable:  # until the news is here
            await asyncio.sleep(0)
        return body, await content(await ask())

    found, server = play(saying(HELLO, stays=False), call)
    assert found == (b"hello", b"hello")
    assert server.connections == 2


def test_a_connection_whose_answer_was_not_read_is_not_used_again():
    async def call(ask):
        await (await ask()).aclose()
        return await content(await ask())

    found, server = play(saying(HELLO), call)
    assert found == b"hello"
    assert server.connections == 2


def test_a_long_body_arrives_whole_and_a_long_answer_comes_as_fast_as_it_is_read():
    body = bytes(range(256)) * 20_000

    async def echo(reader, writer):
        received = await reader.readexactly(len(body))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(received) + received)
        await writer.drain()
        return True

    async def call(ask):
        response = await ask("PUT", body)
        held, parts = [], []
        async for part in response.aiter_bytes():
            parts.append(part)
            held.append(response.stream._line._held)
            await asyncio.sleep(0)
        return b"".join(parts) == body, max(held)

    (same, most), _ = play(echo, call)
    assert same
    assert most < 2_000_000, "more lies here than was asked for"


def test_an_answer_before_the_end_of_a_body_is_heard():
    async def refuse(_reader, writer):
        writer.write(b"HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno")
        await writer.drain()
        await asyncio.Event().wait()  # and reads nothing of it

    sent = 0

    async def endless():
        nonlocal sent
        while True:
            sent += 1
            yield bytes(1 << 16)
            await asyncio.sleep(0)

    async def call(ask):
        response = await asyncio.wait_for(ask("PUT", endless()), 60)
        return response.status_code, await content(response)

    found, _ = play(refuse, call)
    assert found == (413, b"no")
    assert sent < 10_000


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
        b"SSH-2.0-nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * (1 << 20),
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    ],
    ids=["none", "cut", "not HTTP", "endless head", "two lengths"],
)
def test_what_is_no_whole_answer_is_an_error(answer):
    async def call(ask):
        with pytest.raises(httpx2.TransportError):
            await content(await ask())

    play(saying(answer, stays=False), call)


def test_what_a_server_says_first_is_not_taken_for_the_answer():
    async def call(ask):
        return await content(await ask())

    assert play(saying(b"HTTP/1.1 103 Early Hints\r\n\r\n" + HELLO), call)[0] == b"hello"


def test_a_server_that_says_nothing_is_given_up():
    async def silence(_reader, _writer):
        await asyncio.Event().wait()

    async def call(ask):
        with pytest.raises(httpx2.ReadTimeout):
            await ask()

    play(silence, call, silence=0.2)


def test_the_reason_for_which_a_server_is_not_believed_is_passed_on():
    async def run():
        other = https_context(issue_certificate(make_authority(), "s0"))
        async with await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=other) as listening:
            url = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
            async with https(url, AUTHORITY.certificate) as transport:
                with pytest.raises(httpx2.ConnectError) as caught:
                    await transport.handle_async_request(httpx2.Request("GET", url, extensions={"sni_hostname": "s0"}))
        assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)

    asyncio.run(run())
