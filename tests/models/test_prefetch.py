from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from mirrorbench.models.batching import prefetch


def running() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "mirrorbench-prefetch"]


@pytest.mark.parametrize("n", [0, 1, 50])
def test_the_same_items_in_order(n: int) -> None:
    assert list(prefetch(iter(range(n)), room=2)) == list(range(n))
    assert not running()


def test_items_are_made_in_another_thread_before_they_are_asked_for() -> None:
    made = threading.Event()
    who: list[threading.Thread] = []

    def items() -> Iterator[int]:
        yield 1
        who.append(threading.current_thread())
        made.set()
        yield 2

    iterator = prefetch(items())
    assert next(iterator) == 1
    assert made.wait(30)  # the second one is made though nobody has asked for it
    assert list(iterator) == [2]
    assert who != [threading.current_thread()]


def test_no_more_than_there_is_room_for() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            yield number

    with closing(prefetch(items(), room=3)) as iterator:
        for number in range(5):
            assert next(iterator) == number
            assert len(made) <= number + 1 + 3 + 1  # handed over, waiting, and one in the making
    assert not running()  # who stops early leaves no thread behind


def test_an_error_comes_where_its_item_would_have() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    iterator = prefetch(items())
    assert next(iterator) == 1
    with pytest.raises(ValueError, match="broken"):
        next(iterator)
    assert not running()
