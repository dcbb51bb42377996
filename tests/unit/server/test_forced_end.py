"""The second signal: nothing, not even a process that does not react, holds it up."""

from __future__ import annotations

import subprocess
import sys
import time

SOON = 20
"""Seconds; most of them are for a busy machine, and what would not end takes longer."""
STUCK = """
import asyncio, time
from relay_gateway.server.ending import Ending

async def main():
    ending = Ending(0.2)
    ending.ask()
    assert not ending.forced.is_set()
    ending.force()
    assert ending.forced.is_set()
    time.sleep(50)

asyncio.run(main())
"""
DEAF_CHILDREN = """
import asyncio, os, signal, socket
from relay_gateway.server.supervisor import Post, Supervisor

async def work(line):
    line.ready()
    await asyncio.Event().wait()

posts = [
    Post("worker", 0, socket.create_server(("127.0.0.1", 0)), work),
    Post("last", 1, socket.create_server(("127.0.0.1", 0)), work, ends_last=True),
]

def ready():
    print("ready", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)

raise SystemExit(Supervisor(posts, 30.0).run(ready))
"""


def ended(program: str) -> tuple[int, str, float]:
    """Exit code, standard output and how many seconds it took."""
    began = time.monotonic()
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, time.monotonic() - began


def test_f67_a_process_that_hangs_is_gone_all_the_same() -> None:
    code, _, seconds = ended(STUCK)
    assert code == 1
    assert seconds < SOON


def test_f67_children_that_do_not_hear_are_killed() -> None:
    code, said, seconds = ended(DEAF_CHILDREN)
    assert (code, said) == (1, "ready\n")
    assert seconds < SOON
