"""The files of the dashboard: public, small, current, and strict about what may run."""

from __future__ import annotations

import gzip
import hashlib
import json
import re

import httpx
import pytest

from relay_gateway.control.dashboard import CONTENT_SECURITY_POLICY, FILES, read_assets, version

FIRST_LOAD_BYTES = 200_000
OWN = [file for file in FILES.rglob("*.js") if file.parent.name != "vendor"]
_STATIC = re.compile(r"""^(?:import|export)\s[^;]*?from\s*["'](\.[^"']+)["']""", re.MULTILINE)
_IMPORT = re.compile(r"""(?:from|import)\s*\(?["'](\.[^"']+)["']""")


@pytest.mark.parametrize("path", ["/ui/", "/ui/logs", "/ui/models/some-id", "/ui/first-steps"])
async def test_every_view_is_the_same_page(anonymous: httpx.AsyncClient, path: str) -> None:
    answer = await anonymous.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "<script type=module" not in answer.text
    assert f'src="/ui/{version()}/main.js"' in answer.text


@pytest.mark.parametrize("path", ["/", "/ui"])
async def test_the_address_alone_leads_to_the_dashboard(
    anonymous: httpx.AsyncClient, path: str
) -> None:
    answer = await anonymous.get(path)
    assert (answer.status_code, answer.headers["location"]) == (307, "/ui/")


@pytest.mark.parametrize(
    "path", ["/ui/nothing.js", "/ui/../guard.py", "/ui/%2e%2e/guard.py", "/ui/vendor/versions.json"]
)
async def test_t53_nothing_but_its_files_is_served(anonymous: httpx.AsyncClient, path: str) -> None:
    assert (await anonymous.get(path)).status_code in (401, 404)


async def test_it_is_only_read(anonymous: httpx.AsyncClient) -> None:
    assert (await anonymous.post("/ui/")).status_code == 405


async def test_t50_nothing_foreign_may_run(anonymous: httpx.AsyncClient) -> None:
    for name in read_assets():
        answer = await anonymous.get(f"/ui/{name}")
        assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
    assert "unsafe" not in CONTENT_SECURITY_POLICY


async def test_a_file_that_is_known_is_not_sent_again(anonymous: httpx.AsyncClient) -> None:
    first = await anonymous.get("/ui/main.js", headers={"accept-encoding": "gzip"})
    assert first.headers["content-encoding"] == "gzip"
    assert first.headers["cache-control"] == "no-cache"
    again = await anonymous.get("/ui/main.js", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    plain = await anonymous.get("/ui/main.js", headers={"accept-encoding": "identity"})
    assert (plain.text, "content-encoding" in plain.headers) == (first.text, False)


async def test_what_has_its_version_in_its_address_is_never_asked_for_again(
    anonymous: httpx.AsyncClient,
) -> None:
    page = (await anonymous.get("/ui/")).text
    addresses = re.findall(r'(?:src|href)="(/[^"]+)"', page)
    assert len(addresses) > 20
    for address in addresses:
        answer = await anonymous.get(address)
        assert answer.status_code == 200, address
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    other = await anonymous.get("/ui/0123456789abcdef/main.js")
    assert other.status_code == 404
    for path in ("/ui/", f"/ui/{version()}/", f"/ui/{version()}/logs"):
        assert (await anonymous.get(path)).headers["cache-control"] == "no-cache"


def test_the_page_names_all_that_its_first_view_needs() -> None:
    page = read_assets()["index.html"].content.decode()
    named = re.findall(rf'modulepreload" href="/ui/{version()}/([^"]+)"', page)
    assert sorted(named) == sorted(_chain("main.js", "views/overview.js") - {"main.js"})


def _chain(*names: str) -> set[str]:
    """These modules and what they import, at whatever depth."""
    wanted, found = list(names), set[str]()
    while wanted:
        name = wanted.pop()
        if name not in found:
            found.add(name)
            text = read_assets()[name].content.decode()
            wanted += [_resolved(name, path) for path in _STATIC.findall(text)]
    return found


def test_the_first_load_is_small() -> None:
    assets, loaded = read_assets(), _chain("main.js", "views/overview.js")
    sheets = ["index.html", "theme.js", "style/base.css", "style/parts.css", "style/views.css"]
    size = sum(len(gzip.compress(assets[name].content)) for name in (*loaded, *sheets))
    assert size < FIRST_LOAD_BYTES
    assert "vendor/uplot.js" not in loaded


def test_every_import_leads_to_a_file() -> None:
    assets = read_assets()
    for file in OWN:
        name = file.relative_to(FILES).as_posix()
        for path in _IMPORT.findall(file.read_text("utf-8")):
            assert _resolved(name, path) in assets, f"{name} imports {path}"


def test_what_others_have_written_is_as_they_published_it() -> None:
    versions = json.loads((FILES / "vendor" / "versions.json").read_text("utf-8"))
    files = {file.name for file in (FILES / "vendor").iterdir()} - {"versions.json", "LICENSES.md"}
    assert files == set(versions)
    for name, about in versions.items():
        content = (FILES / "vendor" / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == about["sha256"], name


def test_t50_text_is_never_parsed_as_html_and_nobody_else_is_asked() -> None:
    banned = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|\beval\b"
        r"|new Function|https?://(?!www\.w3\.org/2000/svg)"
    )
    sources = [*OWN, *FILES.rglob("*.css"), *FILES.rglob("*.html"), *FILES.rglob("*.svg")]
    for file in sources:
        if file.parent.name != "vendor":
            assert not banned.search(file.read_text("utf-8")), file.name


def _resolved(name: str, path: str) -> str:
    parts = name.split("/")[:-1]
    for step in path.split("/"):
        if step == "..":
            parts.pop()
        elif step != ".":
            parts.append(step)
    return "/".join(parts)
