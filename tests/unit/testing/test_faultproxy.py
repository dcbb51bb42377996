"""The fault proxy forwards faithfully, and breaks exactly what it was told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from relay_gateway.testing.faultproxy import Fault, FaultProxy

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


@pytest.fixture
async def proxy() -> AsyncIterator[FaultProxy]:
    """A proxy in front of a server that sends back what it gets."""
    server = await asyncio.start_server(_echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with FaultProxy("127.0.0.1", port) as proxy:
        yield proxy
    server.close()


async def dial(proxy: FaultProxy) -> Streams:
    return await asyncio.open_connection("127.0.0.1", proxy.port)


async def test_without_faults_bytes_and_ends_pass(proxy: FaultProxy) -> None:
    reader, writer = await dial(proxy)
    writer.write(b"x" * 300_000)
    writer.write_eof()
    assert len(await reader.read()) == 300_000
    writer.close()
    assert proxy.accepted == 1


async def test_a_reset_comes_after_exactly_so_many_bytes(proxy: FaultProxy) -> None:
    proxy.to_client = Fault(reset_after=5)
    reader, writer = await dial(proxy)
    writer.write(b"0123456789")
    assert await reader.readexactly(5) == b"01234"
    with pytest.raises(ConnectionResetError):
        await reader.read()
    writer.close()


async def test_a_half_close_ends_one_direction_only(proxy: FaultProxy) -> None:
    proxy.to_client = Fault(half_close_after=3)
    reader, writer = await dial(proxy)
    writer.write(b"abcdef")
    assert await reader.read() == b"abc"
    writer.write(b"still open")
    await writer.drain()
    assert proxy.open_connections == 1
    writer.close()


async def test_slices_keep_the_bytes(proxy: FaultProxy) -> None:
    proxy.to_client = Fault(slice_bytes=1)
    reader, writer = await dial(proxy)
    writer.write(b"abcdef")
    assert await reader.readexactly(6) == b"abcdef"
    writer.close()


async def test_latency_delays_each_piece(proxy: FaultProxy) -> None:
    proxy.to_server = Fault(latency=0.05)
    reader, writer = await dial(proxy)
    started = asyncio.get_running_loop().time()
    writer.write(b"a")
    await reader.readexactly(1)
    assert asyncio.get_running_loop().time() - started >= 0.05
    writer.close()


async def test_a_blackhole_swallows_and_keeps_the_connection(proxy: FaultProxy) -> None:
    reader, writer = await dial(proxy)
    writer.write(b"a")
    await reader.readexactly(1)
    proxy.to_client = Fault(blackhole=True)
    writer.write(b"b")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(1), 0.05)
    proxy.clear()
    writer.write(b"c")
    assert await reader.readexactly(1) == b"c"
    writer.close()


async def test_a_cut_resets_open_connections(proxy: FaultProxy) -> None:
    reader, writer = await dial(proxy)
    writer.write(b"a")
    await reader.readexactly(1)
    proxy.cut()
    with pytest.raises(ConnectionResetError):
        await reader.read()
    writer.close()


async def test_refused_connections_never_reach_the_server(proxy: FaultProxy) -> None:
    proxy.refuse = True
    reader, writer = await dial(proxy)
    with pytest.raises(ConnectionResetError):
        await reader.read()
    writer.close()
    assert (proxy.accepted, proxy.open_connections) == (1, 0)


async def test_a_server_that_is_down_is_a_reset() -> None:
    unused = await asyncio.start_server(_echo, "127.0.0.1", 0)
    port = unused.sockets[0].getsockname()[1]
    unused.close()
    async with FaultProxy("127.0.0.1", port) as proxy:
        reader, writer = await dial(proxy)
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
