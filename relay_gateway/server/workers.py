"""Several processes: inference workers that share a port, and one for the control plane."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec

from relay_gateway.ids import new_id
from relay_gateway.registry import Registry
from relay_gateway.server.ending import Ending
from relay_gateway.server.gateway import Gateway
from relay_gateway.server.gathering import CONTROL, Gathering, encoded_report, worker_name
from relay_gateway.server.hardening import withdraw
from relay_gateway.server.heartbeat import Member
from relay_gateway.server.in_force import InForce
from relay_gateway.server.letterbox import Answer, Answering, Letterbox, keep_only
from relay_gateway.server.link import Order, SupervisorLine
from relay_gateway.server.opening import open_gateway
from relay_gateway.server.plugin_instances import configure_plugins
from relay_gateway.server.plugin_inventory import record_inventory
from relay_gateway.server.plugin_reloads import PluginReloads, answered
from relay_gateway.server.process_states import ProcessStates
from relay_gateway.server.questions import (
    Question,
    ReloadPlugins,
    ResetHost,
    ResetHostKey,
    TellHostKeys,
    TellHosts,
)
from relay_gateway.server.serving import Planes, open_planes, serve_until_asked
from relay_gateway.server.supervisor import Post
from relay_gateway.settings import Settings

FORCED_SECONDS = 1.2
"""Less than what the supervisor waits before it kills."""


def posts_of(
    settings: Settings,
    registry: Registry,
    environ: Mapping[str, str],
    inference: Sequence[socket.socket],
    control: socket.socket | None,
    *,
    prepared: bool,
) -> list[Post]:
    """A post for each worker and, where the control plane is on, one for it. ``prepared`` is as
    in :func:`.open_gateway`; ``environ`` is what plugins see as the environment."""
    posts = []
    in_force = InForce(settings, registry)
    gateway_id = new_id()
    boxes = [Letterbox.make() for _ in inference] if control is not None else []
    for slot, bound in enumerate(inference):

        async def work(
            line: SupervisorLine, slot: int = slot, bound: socket.socket = bound
        ) -> None:
            orders = Orders(line, inference)
            now, known = in_force.now()
            plugins = configure_plugins(now, known, environ, withdraw)
            member = Member(gateway_id, worker_name(slot + 1))
            async with (
                open_gateway(
                    now, plugins, known.seeds, environ, prepared=prepared, member=member
                ) as gateway,
                _answering(gateway, boxes, slot),
            ):
                gateway.plugin_reload.keep = in_force.keep
                await orders.serve(gateway, inference=bound)

        posts.append(Post(f"worker {slot + 1}", slot, bound, work))
    if control is not None:
        member = Member(gateway_id, CONTROL)
        posts.append(_control_post(in_force, environ, control, boxes, member, prepared=prepared))
    return posts


@asynccontextmanager
async def _answering(
    gateway: Gateway, boxes: Sequence[Letterbox], slot: int
) -> AsyncIterator[None]:
    """Tells the control process, where there is one, what it wants to know of this worker."""
    if not boxes:
        yield
        return
    box = boxes[slot].answering
    keep_only(boxes, box)
    answering = Answering(box, _answers_of(gateway))
    answering.start()
    try:
        yield
    finally:
        await answering.aclose()


def _answers_of(asked: Gateway) -> Answer:
    """What answers the letters of the control process."""

    def answer(letter: bytes) -> bytes | Awaitable[bytes]:
        question: Question = msgspec.msgpack.decode(letter, type=Question)
        if isinstance(question, TellHostKeys):
            return msgspec.msgpack.encode([asked.host_key_state(one) for one in question.ids])
        if isinstance(question, ResetHostKey):
            asked.reset_host_key(question.id)
            return b""
        if isinstance(question, TellHosts):
            return msgspec.msgpack.encode([asked.host_state(one) for one in question.ids])
        if isinstance(question, ResetHost):
            asked.reset_host(question.id)
            return b""
        if isinstance(question, ReloadPlugins):
            return answered(asked.plugin_reload)
        return encoded_report(asked.series)

    return answer


def _control_post(
    in_force: InForce,
    environ: Mapping[str, str],
    bound: socket.socket,
    boxes: Sequence[Letterbox],
    member: Member,
    *,
    prepared: bool,
) -> Post:
    async def work(line: SupervisorLine) -> None:
        orders = Orders(line, [bound])
        keep_only(boxes, *(box.asking for box in boxes))
        now, known = in_force.now()
        plugins = configure_plugins(now, known, environ, withdraw)
        async with open_gateway(
            now, plugins, known.seeds, environ, prepared=prepared, member=member
        ) as gateway:
            gateway.gathering = Gathering(CONTROL, gateway.series, boxes)
            gateway.plugin_reload.keep = in_force.keep
            gateway.reloads = PluginReloads(gateway.plugin_reload, boxes)
            gateway.watcher.listen(record_inventory(gateway.engine, plugins.inventory()))
            gateway.states = ProcessStates(gateway, boxes)
            await orders.serve(gateway, control=bound)

    return Post("the control process", len(boxes), bound, work, ends_last=True)


class Orders:
    """What a child does for its supervisor, from the start on: also while a gateway is opened."""

    def __init__(self, line: SupervisorLine, sockets: Sequence[socket.socket]) -> None:
        self._line = line
        self._sockets = sockets
        self._ending = Ending(FORCED_SECONDS)
        self._planes: Planes | None = None
        self._reload_due = False
        self._adoptions: set[asyncio.Task[None]] = set()
        asyncio.get_running_loop().add_reader(line.fileno(), self._receive)

    async def serve(
        self,
        gateway: Gateway,
        *,
        inference: socket.socket | None = None,
        control: socket.socket | None = None,
    ) -> None:
        """Serves on the socket until the supervisor has it end, or is gone itself."""
        if self._ending.asked.is_set():
            return
        self._planes = await open_planes(
            gateway, inference and inference.dup(), control and control.dup()
        )
        if self._reload_due:
            gateway.reload_soon()
        await serve_until_asked(self._planes, self._ending, self._line.ready)

    def _receive(self) -> None:
        orders = self._line.orders()
        if orders is None:
            # Nobody would ever end this process now.
            asyncio.get_running_loop().remove_reader(self._line.fileno())
            orders = [(Order.DRAIN, 0)]
        for order, slot in orders:
            self._obey(order, slot)

    def _obey(self, order: Order, slot: int) -> None:
        if order in (Order.DRAIN, Order.QUIT):
            self._end(at_once=order is Order.QUIT)
        elif self._planes is None:
            # It may have read the settings already, so it reads them once more.
            self._reload_due |= order is Order.RELOAD
        elif order is Order.RELOAD:
            self._planes.gateway.reload_soon()
        elif order is Order.UNREADY:
            self._planes.gateway.plane.draining = True
        elif self._planes.inference is not None:
            self._stand_in(slot, adopt=order is Order.ADOPT)

    def _end(self, *, at_once: bool) -> None:
        # Callers are refused only once nobody holds the sockets any more.
        for bound in self._sockets:
            bound.close()
        if at_once:
            self._ending.force()
        else:
            self._ending.ask()

    def _stand_in(self, slot: int, *, adopt: bool) -> None:
        assert self._planes is not None  # noqa: S101 - for the type checker
        server = self._planes.inference
        assert server is not None  # noqa: S101 - the same
        if not adopt:
            server.release(slot)
        elif not self._ending.asked.is_set():
            adopting = asyncio.ensure_future(server.adopt(slot, self._sockets[slot].dup()))
            self._adoptions.add(adopting)
            adopting.add_done_callback(self._adoptions.discard)
