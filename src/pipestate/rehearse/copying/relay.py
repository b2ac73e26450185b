"""A relay: who connects on the near side talks to the far side. It runs in a thread while it is needed."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress

Way = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Listen = Callable[[Handler], Awaitable[asyncio.Server]]
Far = Callable[[Way], Awaitable[Way]]
CHUNK = 65536


@contextmanager
def relay(listen: Listen, far: Far) -> Iterator[asyncio.Server]:
    """Listen while the block runs; for each that connects, `far` opens the other side."""
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, asyncio.Server]] = Future()

    async def run() -> None:
        connections = _Connections(far)
        try:
            server = await listen(connections.connect)
        except OSError as error:
            started.set_exception(error)
            return
        async with server:
            stop = asyncio.Event()
            started.set_result((asyncio.get_running_loop(), stop, server))
            await stop.wait()
            await connections.end()

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    loop, stop, server = started.result()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


class _Connections:
    """The connections that are open."""

    def __init__(self, far: Far) -> None:
        self.far = far
        self.tasks: set[asyncio.Task[None]] = set()

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._talk((reader, writer)))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def end(self) -> None:
        """Close those that are still open, and wait until they are."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _talk(self, near: Way) -> None:
        opened = [near]
        with suppress(OSError, asyncio.IncompleteReadError):
            try:
                opened.append(await self.far(near))
                await asyncio.gather(_pump(near, opened[1]), _pump(opened[1], near))
            finally:
                for _, writer in opened:
                    writer.transport.abort()
                    with suppress(OSError):
                        await writer.wait_closed()


async def _pump(one: Way, other: Way) -> None:
    """Pass on what comes until there is no more."""
    with suppress(OSError):
        while data := await one[0].read(CHUNK):
            other[1].write(data)
            await other[1].drain()
    other[1].close()
