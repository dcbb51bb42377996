"""Nothing of a hardened process is dumped, and nobody else reads its memory or its variables."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from relay_gateway.server.hardening import withdraw

HARDENED = """
import ctypes, os, resource, signal
from relay_gateway.server.hardening import harden_process

assert harden_process()
print(resource.getrlimit(resource.RLIMIT_CORE), ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
child = os.fork()
if child == 0:
    os.abort()
_, status = os.waitpid(child, 0)
print(os.WTERMSIG(status) == signal.SIGABRT, os.WCOREDUMP(status))
"""

WITHDRAWN = """
import os, subprocess, sys
from pathlib import Path
from relay_gateway.server.hardening import withdraw

withdraw(["FIRST_KEY", "SECOND_KEY", "ABSENT_KEY"])
print("FIRST_KEY" in os.environ, os.getenv("KEPT"))
environment = Path("/proc/self/environ").read_bytes()
print(b"value" in environment, b"KEPT=this" in environment)
shown = subprocess.run(["env"], capture_output=True, text=True, check=True).stdout
print("value" in shown, "KEPT=this" in shown)
"""


def output_of(program: str, directory: Path, **environ: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=directory,
        env={"PATH": os.environ["PATH"], **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_t12_a_hardened_process_leaves_no_core_and_cannot_be_read(tmp_path: Path) -> None:
    assert output_of(HARDENED, tmp_path) == ["(0, 0) 0", "True False"]
    assert list(tmp_path.iterdir()) == []


def test_t12_a_withdrawn_variable_is_in_no_environment_of_the_process(tmp_path: Path) -> None:
    shown = output_of(
        WITHDRAWN, tmp_path, FIRST_KEY="value-1", SECOND_KEY="value=2", KEPT="this", FIRST="x"
    )
    assert shown == ["False this", "False True", "False True"]


def test_what_is_not_there_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_MADE_UP_KEY", "value")
    withdraw(["A_MADE_UP_KEY", "A_MADE_UP_KEY", "ANOTHER_MADE_UP_KEY"])
    assert "A_MADE_UP_KEY" not in os.environ
    withdraw([])
