"""Documentation held to the code: generated pages, error codes, links, and examples that run."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

import relay_gateway.pipeline.dispatch  # noqa: F401 - it has errors of its own
from relay_gateway.errors import SecretError, SecretNotFoundError, UpstreamError
from relay_gateway.plugin import RowBinding
from relay_gateway.registry import Registry
from relay_gateway.testing.context import plugin_context

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
EXAMPLES = DOCS / "examples"
RAISES = ("RequestRefusedError", "RefusedError", "error_response")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # pydantic looks there for the names in annotations
    spec.loader.exec_module(module)
    return module


def test_the_generated_pages_say_what_the_code_says() -> None:
    pages = load(DOCS / "generate.py").render()
    stale = [path.name for path, text in pages.items() if path.read_text("utf-8") != text]
    assert stale == [], "run: tox run -e docs"


def raised_codes() -> Iterator[str]:
    """Codes of errors as they are written where they are raised."""
    for path in (ROOT / "relay_gateway").rglob("*.py"):
        if "testing" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                yield from _code_argument(node, node.func.id)


def _code_argument(call: ast.Call, name: str) -> Iterator[str]:
    if name in RAISES and len(call.args) > 1:
        code = call.args[1]
        if isinstance(code, ast.Constant) and isinstance(code.value, str):
            yield code.value


def reasons(kind: type[SecretError | UpstreamError]) -> Iterator[str]:
    yield kind.reason
    for derived in kind.__subclasses__():
        yield from reasons(derived)


def test_every_error_code_is_documented_and_no_other() -> None:
    page = (DOCS / "reference" / "errors.md").read_text("utf-8")
    documented = set(re.findall(r"^\|[^|]*?`?\|? ?`([a-z_]+)` \|", page, re.MULTILINE))
    raised = {*raised_codes(), *reasons(UpstreamError), *reasons(SecretError)} - {"refused"}
    assert raised - documented == set()
    sources = "".join(
        path.read_text("utf-8") for path in sorted((ROOT / "relay_gateway").rglob("*.py"))
    )
    assert {code for code in documented if f'"{code}"' not in sources} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)", page.read_text("utf-8"))
    broken = [
        target for target in targets if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []


def test_every_page_can_be_reached_from_the_table_of_contents() -> None:
    contents = (DOCS / "README.md").read_text("utf-8")
    unlisted = [
        str(page.relative_to(DOCS))
        for page in DOCS.rglob("*.md")
        if page.name != "README.md" and str(page.relative_to(DOCS)) not in contents
    ]
    assert unlisted == []


def test_the_plugin_shown_in_the_guide_is_the_example_that_runs() -> None:
    guide = (DOCS / "how-to" / "write-a-plugin.md").read_text("utf-8")
    (shown,) = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    example = (EXAMPLES / "secret_files.py").read_text("utf-8")
    assert shown.strip() in re.sub(r"  # noqa.*", "", example)


async def test_the_example_plugin_resolves_and_refuses(tmp_path: Path) -> None:
    registry = Registry.discover(entry_points=[], extra=[load(EXAMPLES / "secret_files.py")])
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "host-key").write_text("made-up\n", "utf-8")
    sections = {"secret_backends": {"files": {"directory": str(tmp_path / "secrets")}}}
    plugins = registry.configure(sections, lambda name: plugin_context(tmp_path, plugin=name))
    await plugins.aopen()
    try:
        backend = plugins.secret_backends["files"]
        binding = RowBinding("host key", "id", "spec.valueFrom", 1)
        resolved = await backend.resolve(backend.Ref.model_validate({"file": "host-key"}), binding)
        assert resolved.value.reveal() == "made-up"
        with pytest.raises(SecretNotFoundError, match="there is no file 'other'"):
            await backend.resolve(backend.Ref.model_validate({"file": "other"}), binding)
    finally:
        await plugins.aclose()


@dataclass(frozen=True, slots=True)
class Demo:
    """What a running ``relay-gateway demo`` printed."""

    url: str
    key: str
    text: str


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RELAY_")}
    environ |= {"RELAY_PORT": "0", "RELAY_CONTROL_PORT": "0"}
    with subprocess.Popen(
        [sys.executable, "-m", "relay_gateway.cli.main", "demo"],
        cwd=tmp_path_factory.mktemp("demo"),
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield read_demo(process)
        finally:
            process.terminate()
            assert process.wait(20) == 0


def read_demo(process: subprocess.Popen[str]) -> Demo:
    """Reads up to the last line of the last call; ends early when the process does."""
    assert process.stdout is not None
    text = ""
    for line in process.stdout:
        text += line
        if 'end=""' in line:
            break
    url = re.search(r"inference plane +(http://\S+)/v1", text)
    key = re.search(r"sk-relay-\w+", text)
    assert url is not None, text
    assert key is not None, text
    return Demo(url[1], key[0], text)


def output_of(path: Path, demo: Demo) -> list[str]:
    environ = os.environ | {"RELAY_URL": demo.url, "RELAY_KEY": demo.key}
    command = [sys.executable, str(path)]
    done = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_openai_example_runs_against_the_demo(demo: Demo) -> None:
    first, second, third = output_of(EXAMPLES / "openai_sdk.py", demo)
    assert "Hello" in first
    assert "Hello again" in second
    assert third == "2 vectors"


def test_the_anthropic_example_runs_against_the_demo(demo: Demo) -> None:
    first, second, third = output_of(EXAMPLES / "anthropic_sdk.py", demo)
    assert "Hello" in first
    assert "Hello again" in second
    assert re.fullmatch(r"[1-9]\d* tokens", third)


def test_the_python_that_the_demo_prints_runs_as_it_is(demo: Demo, tmp_path: Path) -> None:
    start = demo.text.index("from openai import")
    program = tmp_path / "printed.py"
    program.write_text(demo.text[start:], "utf-8")
    (line,) = output_of(program, demo)
    assert "Hello" in line


async def test_the_curl_that_the_demo_prints_streams_an_answer(demo: Demo) -> None:
    (command,) = re.findall(r"^curl .*?}'$", demo.text, re.DOTALL | re.MULTILINE)
    process = await asyncio.create_subprocess_shell(command, stdout=asyncio.subprocess.PIPE)
    answer, _ = await asyncio.wait_for(process.communicate(), 20)
    assert answer.startswith(b"data: {")
    assert answer.endswith(b"data: [DONE]\n\n")
