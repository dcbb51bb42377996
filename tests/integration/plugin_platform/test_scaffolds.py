"""Every scaffold installs, passes its own tests and `plugins check`, just as it was written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from relay_gateway.cli.scaffolding import KINDS, scaffold
from relay_gateway.testing.installed import PluginSite

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("vendor")
    return {kind: scaffold(kind, "acme", directory) for kind in KINDS}


@pytest.fixture(scope="module")
def site(distributions: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> PluginSite:
    site = PluginSite(tmp_path_factory.mktemp("site"))
    site.install(*distributions.values())
    return site


@pytest.fixture(scope="module")
def reports(site: PluginSite, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """One report for each of the plugins: all of them are called acme."""
    done = site.gateway("plugins", "check", "acme", "--json", cwd=tmp_path_factory.mktemp("check"))
    assert done.returncode == 0, done.stdout + done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_every_scaffold_passes_its_own_tests(
    site: PluginSite, distributions: dict[str, Path]
) -> None:
    tests = [str(root / "tests") for root in distributions.values()]
    configuration = str(distributions["provider"] / "pyproject.toml")
    output = site.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", configuration, *tests)
    assert "passed" in output
    assert "skipped" not in output


def test_every_scaffold_passes_plugins_check(reports: list[dict[str, Any]]) -> None:
    assert {report["kind"] for report in reports} == {kind.words for kind in KINDS.values()}
    for report in reports:
        assert report["passed"], report
        claims = {one["subject"] for one in report["findings"]}
        assert {"distribution", "configuration"} < claims, "and a suite besides"
        assert all(one["outcome"] == "passed" for one in report["findings"])
    (provider,) = [one for one in reports if one["kind"] == "upstream provider"]
    assert len(provider["findings"]) > 150, "the suites of providers and of codecs"


def test_every_scaffold_is_clean_by_the_rules_of_this_repository(
    distributions: dict[str, Path],
) -> None:
    ruff = Path(sys.executable).parent / "ruff"
    configuration = ["--config", str(ROOT / "pyproject.toml"), "--no-cache"]
    paths = [str(root / "src") for root in distributions.values()]
    for command in (["check", "--ignore", "I001,INP001"], ["format", "--check"]):
        done = subprocess.run(
            [ruff, *command, *configuration, *paths], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout


def test_a_broken_promise_is_told_in_words(tmp_path: Path, distributions: dict[str, Path]) -> None:
    broken = scaffold("usage-sink", "broken", tmp_path)
    sink = broken / "src" / "relay_gateway_log_broken" / "sink.py"
    text = sink.read_text("utf-8")
    sink.write_text(text.replace(" ON CONFLICT (id) DO NOTHING", ""), "utf-8")
    site = PluginSite(tmp_path / "site")
    site.install(broken)
    done = site.gateway("plugins", "check", "broken", cwd=tmp_path)
    assert done.returncode == 1
    assert "BROKEN: a second arrival changes nothing" in done.stdout
    assert "IntegrityError" in done.stdout
    assert "distribution: 3 kept" in done.stdout


def test_a_plugin_is_measured_through_the_public_api(site: PluginSite, tmp_path: Path) -> None:
    (tmp_path / "acme").write_text("sk-made-up\n", "utf-8")
    (tmp_path / "section.toml").write_text(f'directory = "{tmp_path}"\n', "utf-8")
    measured = {
        "relay-gateway-provider-acme": "acme.talk: read a request",
        "relay-gateway-log-acme": "write",
        "relay-gateway-payloads-acme": "write",
        "relay-gateway-state-acme": "reserve and settle two limits",
        "relay-gateway-guard-acme": "inspect a request",
        "relay-gateway-secret-acme": "resolve a reference",
    }
    reference = ["--reference", '{"file": "acme"}', "--section", "section.toml"]
    for name, call in measured.items():
        more = reference if "secret" in name else []
        arguments = ["plugins", "bench", name, "--seconds", "0.02", "--json", *more]
        done = site.gateway(*arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        figures = {one["what"]: one for one in json.loads(done.stdout)}
        assert 0 < figures[call]["median_us"] <= figures[call]["p99_us"]
        assert figures[call]["calls"] > 0


def test_a_bill_of_materials_has_versions_licences_and_hashes(
    site: PluginSite, tmp_path: Path
) -> None:
    done = site.gateway("plugins", "list", "--sbom", cwd=tmp_path)
    bill = json.loads(done.stdout)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    components = {one["name"]: one for one in bill["components"]}
    assert components["pydantic"]["licenses"]
    assert components["relay-gateway-log-database"]["version"] == "0.1.0"
    files = {one["name"]: one for one in components["relay-gateway-log-acme"]["components"]}
    (hashed,) = files["relay_gateway_log_acme/sink.py"]["hashes"]
    assert (hashed["alg"], len(hashed["content"])) == ("SHA-256", 64)
    references = {one["bom-ref"] for one in bill["components"]}
    assert all(set(one["dependsOn"]) <= references for one in bill["dependencies"])
