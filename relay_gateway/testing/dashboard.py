"""An operator at the dashboard: a real browser, and everything that a page did which it may not."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Locator,
    Page,
    Request,
    async_playwright,
    expect,
)

from relay_gateway.testing.process import GatewayProcess

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
SLOWDOWN = float(os.environ.get("DASHBOARD_SLOWDOWN") or "1")
"""How many times slower than it is the browser's processor seems to every page."""
WAIT_SECONDS = 8.0 * SLOWDOWN
"""How long it is waited for what a person would see."""
_REPORT_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy violated: ${event.violatedDirective} ${event.blockedURI}`));
"""

_GO = """
(path) => { history.pushState(null, "", path); dispatchEvent(new Event("popstate")); }
"""
_DRAWN = """
() => new Promise((done) => setTimeout(() => requestAnimationFrame(() => done()), 30))
"""


@dataclass(slots=True)
class Misdeeds:
    """What a page must not do, in the order of doing.

    ``errors`` are messages of the console, reports of the content security policy included;
    answers that are refusals are none. ``foreign`` are addresses beyond the gateway's own.
    """

    errors: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def watch(self, page: Page, origin: str) -> None:
        """Notes what ``page`` does. Dialogs are accepted, so that no test hangs; the browser's own
        question before unsaved input is lost is none."""

        async def asked(dialog: Dialog) -> None:
            if dialog.type != "beforeunload":
                self.dialogs.append(dialog.message)
            await dialog.accept()

        def said(message: ConsoleMessage) -> None:
            refusal = message.text.startswith("Failed to load resource")
            if message.type == "error" and not refusal:
                self.errors.append(message.text)

        def fetched(request: Request) -> None:
            if not request.url.startswith((origin, "data:", "blob:")):
                self.foreign.append(request.url)

        page.on("dialog", asked)
        page.on("console", said)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", fetched)

    def judge(self) -> None:
        """Raises ``AssertionError`` unless there are none."""
        assert not self.errors, self.errors
        assert not self.dialogs, self.dialogs
        assert not self.foreign, self.foreign


class Dashboard:
    """One operator with a page of the dashboard, who finds things by the names that are seen."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.misdeeds = Misdeeds()
        self.misdeeds.watch(page, url)
        self._asked: set[Request] = set()
        self._answered = asyncio.Event()
        page.on("request", self._begin)
        page.on("requestfinished", self._end)
        page.on("requestfailed", self._end)

    async def open(self, path: str = "/") -> None:
        """Shows the view at ``path`` and waits for its heading."""
        await self.page.goto(f"{self.url}/ui{path}")
        await expect(self.page.locator("h1").first).to_be_visible()

    async def go(self, path: str, *, seconds: float = WAIT_SECONDS) -> None:
        """Goes from one view to another as a link does, and waits until nothing is loading."""
        await self.page.evaluate(_GO, f"/ui{path}")
        await self.settled(seconds=seconds)

    async def settled(self, *, seconds: float = WAIT_SECONDS) -> None:
        """Waits until every request has been answered and what came of it is drawn."""
        async with asyncio.timeout(seconds):
            await self.page.evaluate(_DRAWN)
            while self._asked:
                self._answered.clear()
                await self._answered.wait()
                if not self._asked:
                    await self.page.evaluate(_DRAWN)

    def _begin(self, request: Request) -> None:
        self._asked.add(request)

    def _end(self, request: Request) -> None:
        self._asked.discard(request)
        self._answered.set()

    async def log_in(self, password: str, username: str = "") -> None:
        """Fills in the form that is seen; without a name ``password`` is the admin token."""
        form = self.page.locator("form:has(#login-password)")
        if username:
            await form.get_by_label("User name").fill(username)
        else:
            await form.get_by_role("button", name="Use the admin token").click()
        await self.page.locator("#login-password").fill(password)
        await form.get_by_role("button", name="Log in", exact=True).click()

    def field(self, name: str, nth: int = 0) -> Locator:
        """The field with this label, of those that have it."""
        label = re.compile(rf"^{re.escape(name)}( required)?$")
        return self.page.get_by_label(label).nth(nth)

    def dialog(self) -> Locator:
        """The dialog that is open."""
        return self.page.locator("dialog[open]")

    async def press(self, name: str) -> None:
        """Clicks the first button with exactly this name."""
        await self.page.get_by_role("button", name=name, exact=True).first.click()

    async def confirm(self, name: str) -> None:
        """Clicks the button with exactly this name in the dialog, once there is one."""
        await self.dialog().get_by_role("button", name=name, exact=True).click()

    async def fill(self, name: str, value: str, nth: int = 0) -> None:
        """Types over what a field holds."""
        await self.field(name, nth).fill(value)

    async def add_to(self, group: str, button: str = "Add one") -> None:
        """Adds an item to a group of fields."""
        fields = self.page.get_by_role("group", name=re.compile(rf"^{group}( required)?$"))
        await fields.get_by_role("button", name=button, exact=True).click()

    async def pick(self, selector: str, text: str) -> None:
        """Chooses an entity by its name in a field that searches."""
        await self.page.locator(selector).fill(text)
        await self.page.get_by_role("option", name=text).first.click()

    async def pick_in(self, name: str, text: str, nth: int = 0) -> None:
        """The same, in the field with this label."""
        await self.field(name, nth).fill(text)
        await self.page.get_by_role("option", name=text).first.click()

    async def save(self) -> None:
        """Saves a form; where something is stored already, the change is confirmed."""
        await self.page.locator("[data-save]").click()

    async def sees(self, text: str) -> None:
        """Waits until ``text`` can be seen."""
        await expect(self.page.get_by_text(text).first).to_be_visible()

    async def toast(self, text: str) -> None:
        """Waits for a short message."""
        await expect(self.page.locator(".toasts").get_by_text(text).first).to_be_visible()


@asynccontextmanager
async def running_browser() -> AsyncIterator[Browser]:
    """Debian's Chromium, without a window. Raises ``AssertionError`` where there is none."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    assert program, "the dashboard's tests need Chromium: apt-get install chromium"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        await browser.close()


@asynccontextmanager
async def operator_at(
    browser: Browser, gateway: GatewayProcess, *, logged_in: bool = True, **options: Any
) -> AsyncIterator[Dashboard]:
    """An operator with a session of the admin token, in a context that nobody shares.

    ``options`` are those of a browser's context. What a page may not have done is judged at the
    end.
    """
    context = await new_context(browser, **options)
    if logged_in:
        await log_in(context, gateway)
    operator = Dashboard(await new_page(context), gateway.control_url)
    yield operator
    await context.close()
    operator.misdeeds.judge()


async def new_context(browser: Browser, **options: Any) -> BrowserContext:
    """A context that nobody shares, in English and in the time of Berlin."""
    defaults: dict[str, Any] = {
        "locale": "en-GB",
        "timezone_id": "Europe/Berlin",
        "viewport": {"width": 1280, "height": 800},
        "reduced_motion": "reduce",
    }
    context = await browser.new_context(**{**defaults, **options})
    context.set_default_timeout(WAIT_SECONDS * 1000)
    await context.add_init_script(_REPORT_VIOLATIONS)
    return context


async def new_page(context: BrowserContext) -> Page:
    """A page as slow as :data:`SLOWDOWN` says."""
    page = await context.new_page()
    if SLOWDOWN > 1:
        debugger = await context.new_cdp_session(page)
        await debugger.send("Emulation.setCPUThrottlingRate", {"rate": SLOWDOWN})
    return page


async def log_in(context: BrowserContext, gateway: GatewayProcess) -> None:
    """A session, without the form."""
    answer = await context.request.post(
        f"{gateway.control_url}/auth/login",
        data={"username": "admin-token", "password": gateway.admin_token},
    )
    assert answer.ok, await answer.text()
