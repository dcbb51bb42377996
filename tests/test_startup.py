"""What a start loads: the figures of time and memory are kept by what must not be among it."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from relay_gateway.server.open_files import PREPARED

ROOT = Path(__file__).parent.parent
SERVE = """
import gc, json, os, re, signal, sys
from relay_gateway.cli import main, serve

def dataclasses():
    for name, module in sorted(sys.modules.items()):
        if name.startswith("relay_gateway.") and not name.startswith("relay_gateway.plugin."):
            for kind in vars(module).values():
                own = isinstance(kind, type) and kind.__module__ == name
                if own and "__dataclass_fields__" in vars(kind):
                    yield f"{name}.{kind.__qualname__}"

def announce(started, prepared):
    found = {
        "modules": sorted(sys.modules),
        "dataclasses": list(dataclasses()),
        "thresholds": gc.get_threshold(),
        "switch": sys.getswitchinterval(),
        "files": re.search(r"FDSize:\\s*([0-9]+)", open("/proc/self/status").read())[1],
    }
    print(json.dumps(found), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

serve._announce = announce
main.main(["serve"])
"""
NEEDED = {"cryptography", "fastapi", "relay_gateway_secret_aws", "sqlalchemy", "uvloop"}
OF_NO_USE = {
    "alembic": "the database has the schema of this version",
    "asyncpg": "the database is SQLite",
    "bcrypt": "nobody has logged in",
    "boto3": "no credential is in the secret store of a vendor",
    "botocore": "the same",
    "click": "uvicorn has a command line of its own, which nobody uses",
    "httpx": "upstreams are not spoken to with it",
    "hvac": "no credential is in the secret store of a vendor",
    "mako": "it belongs to Alembic",
    "multiprocessing": "uvicorn starts no processes",
    "prometheus_client": "nobody has scraped",
    "pydantic.v1": "no model is one of Pydantic 1",
    "pygments": "it belongs to Alembic",
    "re2": "no guard has a pattern",
    "redis": "limits are counted in memory",
    "relay_gateway.testing": "this is no test",
    "rich": "nothing but lines is printed",
    "sqlalchemy.dialects.postgresql": "the database is SQLite",
    "sqlalchemy.orm": "there are tables, not objects",
}
"""By module: why a gateway on SQLite that is up and at rest does not have it."""
COUNTED = re.compile(r"\\[wWdDsS][^\[\]\s]*\]?\{(?:\d+,)?(\d+)\}")
FEW = 16
DATACLASSES = {
    "relay_gateway.errors.FieldProblem",
    "relay_gateway.errors.Referrer",
    "relay_gateway.http.target.Target",
    "relay_gateway.redaction.Form",
    "relay_gateway.registry.inventory.Record",
    "relay_gateway.server.gateway.Gateway",
    "relay_gateway.server.instruments.Instruments",
    "relay_gateway.server.supervisor.Post",
    "relay_gateway.storage.listing._Query",
}
"""Those that plugins see, and those that do what structs cannot: keep a field out of ``repr``,
leave one out of the constructor, check themselves."""
FEW_FILES = 1024
"""A process may be born with room for so many, so a limit near it would tell nothing."""
MOST_LOOKED_THROUGH = 4_000
"""Two milliseconds, rarely four, in which nobody is answered."""


def run(program: str, directory: Path, **environ: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=directory,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def start(directory: Path) -> dict[str, Any]:
    """What a gateway has when its planes are up."""
    environ = {"RELAY_PORT": "0", "RELAY_CONTROL_PORT": "0", "HOME": str(directory)}
    found: dict[str, Any] = json.loads(run(SERVE, directory, **environ))
    return found


def test_a_gateway_at_rest_has_loaded_nothing_of_no_use(tmp_path: Path) -> None:
    assert "alembic" in start(tmp_path)["modules"]  # the first start makes the tables
    loaded = start(tmp_path)["modules"]
    assert set(loaded) >= NEEDED
    assert {name: why for name, why in OF_NO_USE.items() if name in loaded} == {}


def test_a_start_defines_few_dataclasses(tmp_path: Path) -> None:
    # Each takes half a millisecond, a struct a fortieth of that; a quarter of a start it was.
    assert set(start(tmp_path)["dataclasses"]) == DATACLASSES


def test_no_collection_looks_through_so_many_objects_that_callers_notice(tmp_path: Path) -> None:
    youngest, times, _ = start(tmp_path)["thresholds"]
    # The middle-aged are those of so many times before, and the youngest come with them.
    assert youngest * (times + 2) <= MOST_LOOKED_THROUGH


def test_threads_hand_over_the_interpreter_soon(tmp_path: Path) -> None:
    # A request gives it away four times, and waits for it as long while another thread works.
    assert start(tmp_path)["switch"] <= 0.0002


def test_t41_there_is_room_for_many_open_files_before_they_come(tmp_path: Path) -> None:
    # A table that grows later stops the event loop for up to 20 ms each time.
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert allowed >= 2 * FEW_FILES
    assert int(start(tmp_path)["files"]) >= min(allowed, PREPARED)


ALONE = """
import os, signal
from relay_gateway.server import open_files

def watched():
    print(len(os.listdir("/proc/self/task")), flush=True)
    prepare()

prepare, open_files.prepare_table = open_files.prepare_table, watched
from relay_gateway.cli import main, serve
serve._announce = lambda started, prepared: os.kill(os.getpid(), signal.SIGTERM)
main.main(["serve"])
"""


def test_t41_room_for_open_files_is_made_while_there_is_one_thread(tmp_path: Path) -> None:
    environ = {"RELAY_PORT": "0", "RELAY_CONTROL_PORT": "0", "HOME": str(tmp_path)}
    assert run(ALONE, tmp_path, **environ).split() == ["1"]


@pytest.mark.parametrize(
    ("package", "name", "module"),
    [
        ("sqlalchemy.ext.asyncio", "AsyncSession", "sqlalchemy.ext.asyncio.session"),
        ("sqlalchemy.ext.asyncio", "async_scoped_session", "sqlalchemy.ext.asyncio.scoping"),
        ("uvicorn", "run", "uvicorn.main"),
    ],
)
def test_what_was_not_loaded_is_there_for_who_asks(
    package: str, name: str, module: str, tmp_path: Path
) -> None:
    program = f"""
import sys
from relay_gateway.cli.deferred_imports import load_without_unused
load_without_unused()
assert {module!r} not in sys.modules
import {package} as package
assert not hasattr(package, "nothing_of_the_kind")
from {package} import {name}
assert {name} is vars(sys.modules[{module!r}])[{name!r}] is package.{name}
assert {name}.__module__ == {module!r}
print("found")
"""
    assert run(program, tmp_path) == "found\n"


def test_the_models_of_an_openapi_document_are_prepared_when_they_are_used(tmp_path: Path) -> None:
    program = """
import sys
from relay_gateway.cli.deferred_imports import load_without_unused
load_without_unused()
from fastapi.openapi.models import OpenAPI
from pydantic import BaseModel
assert not OpenAPI.__pydantic_complete__
class Ours(BaseModel):
    name: str
assert Ours.__pydantic_complete__
told = {"openapi": "3.1.0", "info": {"title": "x", "version": "1"}, "paths": {}}
assert OpenAPI(**told).model_dump(exclude_none=True) == told
assert OpenAPI.__pydantic_complete__
print("prepared")
"""
    assert run(program, tmp_path) == "prepared\n"


def test_a_package_that_is_loaded_stays_as_it_is(tmp_path: Path) -> None:
    program = """
import sqlalchemy.ext.asyncio as package
before = dict(vars(package))
from relay_gateway.cli.deferred_imports import load_without_unused
load_without_unused()
assert vars(package) == before
print("same")
"""
    assert run(program, tmp_path) == "same\n"


def test_no_pattern_counts_far_over_all_letters_or_digits_there_are() -> None:
    # Letters of all scripts, 64 times: the validator makes a table of 6 MiB of that.
    assert COUNTED.search(r"^[\w+=,.@-]{2,64}$")
    sources = [*ROOT.glob("relay_gateway/**/*.py"), *ROOT.glob("plugins/*/src/**/*.py")]
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in sources
        for line in path.read_text("utf-8").splitlines()
        if "pattern=" in line
        for match in COUNTED.finditer(line)
        if int(match[1]) > FEW
    ]
    assert found == []
