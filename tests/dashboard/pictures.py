"""Pictures of views: for the documentation, or all of them to look at.

``DASHBOARD_PICTURES=1`` writes those of the documentation anew; ``DASHBOARD_PICTURES_TO`` names
another directory, which then gets every one in every look.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from playwright.async_api import FloatRect, Locator, Page

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "images" / "dashboard"
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "narrow": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}},
}
TOP: FloatRect = {"x": 0, "y": 0, "width": 1280, "height": 500}
"""What a picture of a page in the documentation shows, so that it stays small."""
SHOWN = {
    "overview",
    "logs",
    "request",
    "explain",
    "policy",
    "first-steps",
    "audit",
    "instances",
}
"""Those that the documentation shows, in light colours."""


def is_wanted(view: str, look: str) -> bool:
    """Whether somebody asked for this picture."""
    return _place(view, look) is not None


async def photograph(
    seen: Page | Locator, view: str, look: str, *, full_page: bool = False
) -> None:
    """Takes a picture of ``seen`` if it is asked for, of a page down to its end with
    ``full_page``."""
    path = _place(view, look)
    if path is None:
        return
    await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
    if isinstance(seen, Locator):
        await seen.screenshot(path=path)
    elif path.parent == DOCUMENTATION:
        await seen.screenshot(path=path, clip=TOP)
    else:
        await seen.screenshot(path=path, full_page=full_page)


def _place(view: str, look: str) -> Path | None:
    if "DASHBOARD_PICTURES_TO" in os.environ:
        return Path(os.environ["DASHBOARD_PICTURES_TO"], f"{view}-{look}.png")
    wanted = os.environ.get("DASHBOARD_PICTURES") == "1" and look == "light" and view in SHOWN
    return DOCUMENTATION / f"{view}.png" if wanted else None
