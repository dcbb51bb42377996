"""What the supervisor and its children can say to each other."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from relay_gateway.server.link import ChildLine, Order, SupervisorLine

Sockets = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Sockets]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_orders_come_in_order_each_with_its_slot(pair: Sockets) -> None:
    child, supervisor = ChildLine(pair[0]), SupervisorLine(pair[1])
    assert supervisor.orders() == []
    child.send(Order.ADOPT, 255)
    child.send(Order.DRAIN)
    assert supervisor.orders() == [(Order.ADOPT, 255), (Order.DRAIN, 0)]


def test_a_child_is_ready_when_it_says_so(pair: Sockets) -> None:
    child, supervisor = ChildLine(pair[0]), SupervisorLine(pair[1])
    before = (child.receive(), child.ready)
    supervisor.ready()
    assert [before, (child.receive(), child.ready)] == [(True, False), (True, True)]


def test_a_child_says_why_it_failed(pair: Sockets) -> None:
    child, supervisor = ChildLine(pair[0]), SupervisorLine(pair[1])
    supervisor.failed("ö" * 10_000)
    pair[1].close()
    assert child.receive()
    assert child.failure.startswith("öö")
    assert not child.receive()
    child.send(Order.DRAIN)


def test_the_end_of_the_supervisor_is_told_from_silence(pair: Sockets) -> None:
    child, supervisor = ChildLine(pair[0]), SupervisorLine(pair[1])
    child.send(Order.UNREADY)
    child.close()
    assert supervisor.orders() == [(Order.UNREADY, 0)]
    assert supervisor.orders() is None
    supervisor.ready()
