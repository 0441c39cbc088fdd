"""The asyncio clients as the blocking ones: the same tests run over both faces.

`Loop` is an event loop in a thread of its own. `Loop.face(client)` looks like the blocking client of the same
name: coroutines are awaited there, asynchronous iterators become iterators.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from types import ModuleType
from typing import Any

import pytest

FACES = ("threads", "asyncio")


class Loop:
    """Runs until `close`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="test-loop", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Await it on the loop. A listener, which runs there, gets what it has to return to be awaited."""
        if threading.current_thread() is self._thread:
            return work
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def call(self, function: Callable[[], Any]) -> Any:
        """Call it on the loop; await what it returns, if it can be awaited."""

        if threading.current_thread() is self._thread:
            return function()

        async def called() -> Any:
            result = function()
            return await result if inspect.isawaitable(result) else result

        return self.run(called())

    def face(self, client: object) -> Any:
        """What looks like the blocking client."""
        return Face(client, self)

    def faced(self, result: object) -> Any:
        """What a blocking client would have returned."""
        if type(result).__module__.startswith("ottla.aio"):
            return self.face(result)
        if isinstance(result, AsyncIterator):
            return self._iterator(result)
        if hasattr(result, "__aenter__"):
            return self._context(result)
        if isinstance(result, dict):
            return {key: self.faced(value) for key, value in result.items()}
        return result

    def _iterator(self, items: AsyncIterator[Any]) -> Iterator[Any]:
        async def take() -> tuple[bool, Any]:
            try:
                return True, await anext(items)
            except StopAsyncIteration:
                return False, None

        while True:
            is_there, item = self.run(take())
            if not is_there:
                return
            yield item

    @contextlib.contextmanager
    def _context(self, block: Any) -> Iterator[Any]:
        """A block of `with` for one of `async with`."""
        value = self.run(block.__aenter__())
        try:
            yield value
        except BaseException as error:
            if not self.run(block.__aexit__(type(error), error, error.__traceback__)):
                raise
        else:
            self.run(block.__aexit__(None, None, None))

    def close(self) -> None:
        """End the loop, which must have nothing left to do."""
        left = self.call(lambda: [task for task in asyncio.all_tasks() if task is not asyncio.current_task()])
        self.run(self._loop.shutdown_asyncgens())
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        assert not left, left


class Face:
    """A client of `ottla.aio` that blocks."""

    def __init__(self, client: object, loop: Loop) -> None:
        self._client = client
        self._loop = loop

    def __repr__(self) -> str:
        return str(self._loop.call(lambda: repr(self._client)))

    def __getattr__(self, name: str) -> Any:
        value = self._loop.call(lambda: getattr(self._client, name))
        if not inspect.ismethod(value):
            return self._loop.faced(value)
        return lambda *args, **keywords: self._loop.faced(self._loop.call(lambda: value(*args, **keywords)))

    def __iter__(self) -> Iterator[Any]:
        return self._loop.faced(self._loop.call(lambda: aiter(self._client)))  # type: ignore[arg-type]

    def __enter__(self) -> Face:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call(lambda: self._client.close())  # type: ignore[attr-defined]


@contextlib.contextmanager
def on_a_loop(module: ModuleType, name: str, client: type) -> Iterator[None]:
    """The tests of a module use an asyncio client where they say `name`."""
    loop = Loop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            module, name, lambda *given, **settings: loop.face(loop.call(lambda: client(*given, **settings)))
        )
        yield
    loop.close()


@contextlib.contextmanager
def opened(face: str, blocking: Any, on_loop: Any, **settings: object) -> Iterator[Any]:
    """A client of either face, closed at the end; that of asyncio looks like the blocking one."""
    if face == "threads":
        with blocking(**settings) as client:
            yield client
        return
    with contextlib.closing(Loop()) as loop, loop.face(loop.call(lambda: on_loop(**settings))) as client:
        yield client
