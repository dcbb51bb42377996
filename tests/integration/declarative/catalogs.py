"""Random catalogs as manifests: every kind, references in any direction, odd texts."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Document = dict[str, Any]
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
SLUGS = ("a", "b-1", "yes")
LABELS = st.dictionaries(TEXTS, TEXTS, max_size=2)
WORDS = st.lists(TEXTS, max_size=2)
AMOUNTS = st.decimals(0, 10**6, places=6, allow_nan=False).map(str) | st.integers(0, 99)
MOMENTS = st.sampled_from(["2030-01-31T00:00:00Z", "2031-06-01T12:30:00.5+02:00"])


def spec(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Document]:
    """Some of the optional fields."""
    return st.fixed_dictionaries({}, optional={"enabled": st.booleans(), **fields})


def some(slugs: list[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(slugs), unique=True, max_size=2) if slugs else st.just([])


PROVIDERS = spec(homepageUrl=st.just("https://acme.test"), icon=TEXTS)
HOSTS = spec(
    adapterConfig=st.sampled_from([{}, {"region": "us"}]),
    wireFormats=st.just(["fast.chat"]),
    headers=st.just({"X-Team": "a b"}),
    timeouts=st.fixed_dictionaries({}, optional={"connect": st.floats(0.001, 300)}),
    maxConnections=st.integers(1, 65535),
    noAuth=st.booleans(),
)
PRICINGS = st.fixed_dictionaries(
    {
        "rates": st.lists(
            st.fixed_dictionaries(
                {"meter": st.sampled_from(["tokens.input", "images"]), "amount": AMOUNTS},
                optional={"unit": st.just("perUnit"), "aboveTokens": st.integers(0, 10**6)},
            ),
            min_size=1,
            max_size=3,
        )
    },
    optional={"currency": st.just("EUR")},
)
LIMITS = st.fixed_dictionaries(
    {
        "rules": st.lists(
            st.just({"meter": "concurrency", "amount": 3})
            | st.builds(
                lambda amount: {"meter": "tokens", "amount": amount, "windowSeconds": 60},
                st.integers(1, 10**9),
            ),
            min_size=1,
            max_size=2,
        )
    }
)


@st.composite
def catalogs(draw: st.DrawFn) -> list[Document]:
    """The documents of one catalog; each refers only to what is among them."""
    slugs = {
        kind: draw(st.lists(st.sampled_from(SLUGS), unique=True, max_size=2))
        for kind in ("provider", "host", "pricing", "rate-limit", "policy")
    }
    documents = [
        *(_document(draw, "provider", slug, draw(PROVIDERS)) for slug in slugs["provider"]),
        *(_document(draw, "host", slug, _host(draw)) for slug in slugs["host"]),
        *(_document(draw, "pricing", slug, draw(PRICINGS)) for slug in slugs["pricing"]),
        *(_document(draw, "rate-limit", slug, draw(LIMITS)) for slug in slugs["rate-limit"]),
    ]
    keys = [f"key-{n}" for n in range(2)] if slugs["host"] and slugs["policy"] else []
    documents += [
        _document(draw, "policy", slug, _policy(draw, keys, slugs)) for slug in slugs["policy"]
    ]
    documents += [_document(draw, "host-key", slug, _host_key(draw, slugs)) for slug in keys]
    if slugs["policy"]:
        documents.append(_document(draw, "relay-key", "app", _relay_key(draw, slugs)))
    if slugs["provider"]:
        names = ["one", "two"]
        documents += [
            _document(draw, "model", name, _model(draw, name, names, slugs)) for name in names
        ]
    return draw(st.permutations(documents))


def _document(draw: st.DrawFn, kind: str, slug: str, content: Document) -> Document:
    metadata = {"slug": slug, "labels": draw(LABELS), "description": draw(TEXTS)}
    if draw(st.booleans()):
        metadata |= {"displayName": draw(TEXTS)}
    metadata |= {"managedBy": draw(st.sampled_from(["api", "catalog", "file"]))}
    return {"kind": kind, "metadata": metadata, "spec": content}


def _host(draw: st.DrawFn) -> Document:
    return {"baseUrl": "http://127.0.0.1:9/v1", "adapter": "fast", **draw(HOSTS)}


def _policy(draw: st.DrawFn, keys: list[str], slugs: dict[str, list[str]]) -> Document:
    limits = draw(some(slugs["rate-limit"]))
    content = draw(
        spec(
            models=st.just(["*", "acme/big@east"]),
            payloadLogging=st.booleans(),
            budgets=st.just([{"amountNanos": 5, "scope": "tag:a"}]),
            maxOutputTokens=st.integers(1, 10**6),
        )
    )
    return content | {
        "hostKeyIds": draw(some(keys)),
        "rateLimits": [{"rateLimitId": limit} for limit in limits],
    }


def _host_key(draw: st.DrawFn, slugs: dict[str, list[str]]) -> Document:
    value_from: Document = {"kind": "table", "entry": draw(TEXTS)}
    if draw(st.booleans()):
        value_from = {"kind": "box", "value": "sk-secret"}
    return {
        "hostId": draw(st.sampled_from(slugs["host"])),
        "policyId": draw(st.sampled_from(slugs["policy"])),
        "valueFrom": value_from,
        "weight": draw(st.integers(0, 1000)),
    }


def _relay_key(draw: st.DrawFn, slugs: dict[str, list[str]]) -> Document:
    content = draw(
        spec(
            expiresAt=MOMENTS,
            revokedAt=MOMENTS,
            tags=st.just({"team": "x"}),
            allowedCidrs=st.just(["127.0.0.0/8"]),
        )
    )
    return content | {
        "policyId": draw(st.sampled_from(slugs["policy"])),
        "rateLimitIds": draw(some(slugs["rate-limit"])),
    }


def _model(draw: st.DrawFn, slug: str, names: list[str], slugs: dict[str, list[str]]) -> Document:
    content = draw(
        spec(
            contextWindow=st.integers(1, 10**7),
            capabilities=WORDS,
            modalities=st.fixed_dictionaries({"input": WORDS, "output": WORDS}),
            aliases=st.just([f"{slug}-*", f"{slug}.alias"]),
            name=st.just(f"{slug}/name"),
        )
    )
    others = [name for name in names if name != slug]
    bindings = [
        {
            "hostId": host,
            "weight": draw(st.integers(0, 9)),
            **({"pricingId": draw(st.sampled_from(slugs["pricing"]))} if slugs["pricing"] else {}),
        }
        for host in draw(some(slugs["host"]))
    ]
    return content | {
        "providerId": draw(st.sampled_from(slugs["provider"])),
        "bindings": bindings,
        "fallbacks": draw(some(others)),
        "deprecated": draw(
            st.none() | st.just({"replacementId": others[0], "since": "2026-01-01T00:00:00Z"})
        ),
    }
