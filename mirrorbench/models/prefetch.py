"""Work that is done while other work goes on: the next texts are tokenised while the model computes."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from queue import Full, Queue
from threading import Event, Thread
from typing import Generic, TypeVar

T = TypeVar("T")

_ROOM = 4
"""Items made before they are asked for, at most."""


class _Failed(Generic[T]):
    """What the maker of the items raised."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def prefetch(items: Iterator[T], room: int = _ROOM) -> Generator[T, None, None]:
    """The same items in the same order, made in a thread of their own before they are asked for.

    Tokenizers and torch both leave Python's lock while they work, so the two run side by side. Nothing but this
    thread may touch what ``items`` uses until they are exhausted, or the iterator that is returned is closed.

    Args:
        items: made one after the other.
        room: how many may wait, at most.

    Raises:
        BaseException: what making an item raised, where that item would have come.
    """
    queue: Queue[T | _Failed[T] | None] = Queue(room)
    stop = Event()

    def put(item: T | _Failed[T] | None) -> None:
        while not stop.is_set():
            try:
                return queue.put(item, timeout=0.1)
            except Full:
                continue

    def make() -> None:
        try:
            for item in items:
                put(item)
                if stop.is_set():
                    return
            put(None)
        except BaseException as error:
            put(_Failed(error))

    maker = Thread(target=make, name="mirrorbench-prefetch", daemon=True)
    maker.start()
    try:
        while (item := queue.get()) is not None:
            if isinstance(item, _Failed):
                raise item.error
            yield item
    finally:
        stop.set()
        maker.join()
