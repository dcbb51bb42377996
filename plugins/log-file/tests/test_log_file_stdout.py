"""Standard output as the place of the lines."""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from relay_gateway.errors import StorageUnavailableError
from relay_gateway.plugin import LogQuery, PluginContext, UsageRecord
from relay_gateway.testing.records import varied_records
from relay_gateway_log_file import FileSink, FileSinkConfig
from relay_gateway_log_file.lines import record_of
from relay_gateway_log_file.stdout import StandardOutput
from relay_gateway_log_file.turns import Turns

PROGRAM = """
import asyncio, sys
from pathlib import Path
from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.records import varied_records
from relay_gateway_log_file import FileSink, FileSinkConfig

async def run() -> None:
    context = plugin_context(Path(sys.argv[1]))
    sink = FileSink(FileSinkConfig(path="-"), context)
    await sink.aopen()
    for _ in range(5):
        await sink.write(varied_records(300))
    await sink.aclose()
    await context.aclose()

asyncio.run(run())
"""


def records_in(text: bytes) -> list[UsageRecord]:
    return [record_of(line) for line in text.splitlines()]


def test_workers_that_share_standard_output_do_not_mix_their_lines(tmp_path: Path) -> None:
    read, write = os.pipe()
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path)]
    processes = [subprocess.Popen(command, stdout=write) for _ in range(2)]
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        found = records_in(pipe.read())
    assert [process.wait(30) for process in processes] == [0, 0]
    assert len({record.request_id for record in found}) == len(found) == 3000


async def test_standard_output_cannot_be_read_and_says_so(context: PluginContext) -> None:
    sink = FileSink(FileSinkConfig(path="-"), context)
    assert not sink.reads
    assert FileSink.reads
    await sink.aopen()
    with pytest.raises(StorageUnavailableError, match="standard output and cannot be read"):
        await sink.query(LogQuery())
    await sink.aclose()


def test_f30_a_line_that_was_begun_gets_its_end_with_the_next_try(tmp_path: Path) -> None:
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETFL, os.O_NONBLOCK)  # its writer is told instead of held up
    output = StandardOutput(Turns(tmp_path / "lock"), write)
    batch = varied_records(200)
    text = b""
    for _ in range(100):
        try:
            output.write(batch)
        except BlockingIOError:
            text += os.read(read, 1 << 20)
        else:
            break
    output.sync()
    output.close()
    text += os.read(read, 1 << 20)
    os.close(read)
    os.close(write)
    assert len(text) > 65536, "more than a pipe takes at once"
    assert records_in(text) == batch


async def test_f30_a_reader_that_is_gone_is_an_error_of_the_sink_alone(
    context: PluginContext, tmp_path: Path
) -> None:
    read, write = os.pipe()
    os.close(read)
    output = StandardOutput(Turns(tmp_path / "lock"), write)
    sink = FileSink(FileSinkConfig(path="-"), context)
    await sink.aopen()
    sink._output = output
    with pytest.raises(StorageUnavailableError, match=r"standard output .*Broken pipe"):
        await asyncio.wait_for(sink.write(varied_records(3)), 5)
    await sink.aclose()
    os.close(write)


async def test_f30_a_reader_that_has_stopped_holds_up_the_sink_alone(
    context: PluginContext, tmp_path: Path
) -> None:
    read, write = os.pipe()
    sink = FileSink(FileSinkConfig(path="-"), context)
    await sink.aopen()
    sink._output = StandardOutput(Turns(tmp_path / "lock"), write)
    batch = varied_records(400)
    writing = asyncio.create_task(sink.write(batch))
    turns = 0
    async with asyncio.timeout(10):
        while turns < 100:  # the loop goes on meanwhile
            await asyncio.sleep(0.001)
            turns += 1
        assert not writing.done()
        text = b""
        while len(records_in(text[: text.rfind(b"\n") + 1])) < len(batch):
            text += await asyncio.to_thread(os.read, read, 1 << 20)
        await writing
    assert records_in(text) == batch
    await sink.aclose()
    os.close(read)
    os.close(write)
