"""``relay-gateway serve`` as a process of its own: what it says, what it hides, how it ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

SERVE = [sys.executable, "-m", "relay_gateway.cli.main", "serve"]


def environment(**settings: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RELAY_")}
    return kept | {f"RELAY_{name.upper()}": value for name, value in settings.items()}


def serve_until_announced(directory: Path, **settings: str) -> tuple[str, str, int]:
    """Standard output and error of a gateway that is told to stop once it has announced itself."""
    with subprocess.Popen(
        SERVE,
        cwd=directory,
        env=environment(port="0", control_port="0", **settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        announced = ""
        for line in process.stdout:
            announced += line
            if line.startswith("Next"):
                break
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=20)
        return announced + rest, errors, process.returncode


def test_a_first_start_says_where_everything_is_and_ends_with_0(tmp_path: Path) -> None:
    out, errors, code = serve_until_announced(tmp_path)
    assert code == 0, errors
    assert re.search(r"inference plane  http://127\.0\.0\.1:\d+/v1\n", out)
    assert re.search(r"control plane    http://127\.0\.0\.1:\d+\n", out)
    data = tmp_path / "relay-data"
    assert f"admin token      {data}/admin-token  (just made)" in out
    assert f"master key       {data}/master-key  (just made)" in out
    assert out.rstrip().endswith("relay-gateway keys create my-application")
    assert "(just made)" not in serve_until_announced(tmp_path)[0]


def test_t13_what_is_generated_is_printed_nowhere_even_at_debug(tmp_path: Path) -> None:
    out, errors, _ = serve_until_announced(tmp_path, log_level="debug")
    for name in ("admin-token", "master-key"):
        secret = (tmp_path / "relay-data" / name).read_text("ascii").strip()
        assert secret not in out + errors


def test_a_variable_that_means_nothing_is_warned_of(tmp_path: Path) -> None:
    _, errors, code = serve_until_announced(tmp_path, prot="80")
    assert code == 0
    assert "the variable RELAY_PROT is not a setting and is ignored" in errors


def test_a_port_in_use_ends_with_2_and_says_which(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            SERVE,
            cwd=tmp_path,
            env=environment(port=str(port), control_port="0"),
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    assert done.returncode == 2
    assert f"port: cannot listen on 127.0.0.1 port {port}" in done.stderr
