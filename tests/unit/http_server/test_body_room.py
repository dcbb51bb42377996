"""The room that large bodies share, and who goes on when it is full."""

from __future__ import annotations

import random

import pytest

from relay_gateway.http.body_room import BodyRoom


class Visitor:
    """A body that counts how often it was let on."""

    def __init__(self) -> None:
        self.let_on = 0

    def go_on(self) -> None:
        self.let_on += 1


@pytest.fixture
def visitors() -> list[Visitor]:
    return [Visitor() for _ in range(3)]


def test_r15_bodies_grow_while_there_is_room(visitors: list[Visitor]) -> None:
    room = BodyRoom(100)
    assert all(room.charge(visitor, 33) for visitor in visitors)
    assert room.held == 99


def test_r15_eldest_goes_on_in_a_full_room_and_the_others_wait(visitors: list[Visitor]) -> None:
    eldest, second, third = visitors
    room = BodyRoom(100)
    assert room.charge(eldest, 60)
    assert not room.charge(second, 60)
    assert not room.charge(third, 60)
    assert room.charge(eldest, 90)
    room.complete(eldest, 90)
    assert (second.let_on, third.let_on) == (0, 0)
    room.leave(eldest)
    assert (room.held, second.let_on, third.let_on) == (120, 1, 0)


def test_r15_finished_body_keeps_its_room_until_it_leaves(visitors: list[Visitor]) -> None:
    done, growing, _ = visitors
    room = BodyRoom(100)
    room.complete(done, 99)
    assert not room.charge(growing, 10)
    room.leave(done)
    assert (growing.let_on, room.held) == (1, 10)


def test_r15_one_that_waits_and_leaves_is_not_let_on(visitors: list[Visitor]) -> None:
    eldest, second, third = visitors
    room = BodyRoom(100)
    room.charge(eldest, 100)
    room.charge(second, 1)
    room.charge(third, 1)
    room.leave(second)
    room.leave(eldest)
    assert (room.held, second.let_on, third.let_on) == (1, 0, 1)


def test_leaving_without_having_come_changes_nothing(visitors: list[Visitor]) -> None:
    room = BodyRoom(100)
    room.leave(visitors[0])
    assert room.held == 0


@pytest.mark.parametrize("seed", range(30))
def test_r15_every_body_is_finished_in_bounded_room(seed: int) -> None:
    """Bodies of ten pieces each, which arrive, finish and leave in any order."""
    pick = random.Random(seed)
    piece, pieces, capacity = 10, 10, 250
    room = BodyRoom(capacity)
    growing: dict[Visitor, int] = {Visitor(): 0 for _ in range(12)}
    paused: dict[Visitor, int] = {}
    finished: list[Visitor] = []
    most = 0
    for _ in range(10_000):
        if not growing and not paused and not finished:
            break
        if finished and (not growing or pick.random() < 0.3):
            room.leave(finished.pop(pick.randrange(len(finished))))
        elif growing:
            visitor = pick.choice(list(growing))
            growing[visitor] += 1
            if growing[visitor] == pieces:
                room.complete(visitor, pieces * piece)
                finished.append(visitor)
                del growing[visitor]
            elif not room.charge(visitor, growing[visitor] * piece):
                paused[visitor] = growing.pop(visitor)
                visitor.let_on = 0
        for visitor in [one for one in paused if one.let_on]:
            growing[visitor] = paused.pop(visitor)
        most = max(most, room.held)
    assert (growing, paused, finished, room.held) == ({}, {}, [], 0)
    assert most <= capacity + pieces * piece + 12 * piece
