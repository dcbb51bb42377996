"""What must not be the same in two processes after a fork, and what must go on in both."""

from __future__ import annotations

import subprocess
import sys

FORKING = """
import logging, os
from relay_gateway.ids import new_id
from relay_gateway.log import configure_logging

handler = configure_logging("info", "console")
logger = logging.getLogger("relay_gateway.test")
logger.info("before")
child = os.fork()
logger.info("after in the %s", "parent" if child else "child")
os.write(1, new_id()[-15:].encode() + b"\\n")
handler.close()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
"""


def forked() -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", FORKING]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)


def test_two_processes_do_not_make_the_same_ids() -> None:
    first, second = forked().stdout.split()
    assert first != second


def test_each_line_is_logged_once_by_the_process_that_had_it() -> None:
    lines = [line.rpartition(": ")[2] for line in forked().stderr.splitlines()]
    assert sorted(lines) == ["after in the child", "after in the parent", "before"]
