"""Writes the page that says what becomes of each field between wire formats, from the codecs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from relay_gateway.plugin import WireCodec, WireFormat
from relay_gateway.plugin.canonical.features import Feature, Support
from relay_gateway.plugin.codec import Fate

INTRODUCTION = """\
What becomes of each field when a request in one wire format is written in another. The tables are
made of what the codecs declare, and the codecs act on nothing else.

* **carried**: the other side is asked for the same.
* **approximated**: by the nearest thing there is; the table says what.
* **dropped**: left out, and named in `X-Relay-Dropped-Params`. Only advice is dropped: the answer
  is still one to what was asked.
* **refused**: 400 `invalid_request`, with the field in `param`.

A member that is in none of the tables is unknown to the gateway. It is refused by its name where
a request crosses to another format, because nobody can say whether the answer without it would be
the one asked for. So are tools, parts and items that one provider runs or stores itself (web
search, files by id, stored responses). The members under *dropped as advice* are the exception.
Nothing of this concerns a request to a host that speaks the caller's format.

Reasoning that a provider signs or encrypts (`signature`, `encrypted_content`, `thoughtSignature`)
is given to the caller sealed, where the caller's format has room for such a thing, and goes back
to its provider byte for byte. Another provider cannot read it: it is left out there, and named as
dropped.
"""

ANSWERS = """\
## Answers

Text, refusals, tool calls with streamed arguments, reasoning, the reason to stop, usage with
cached and reasoning tokens, and log probabilities are told in the caller's format, whole and
streamed.

* A tool call is streamed as it is written; only `gemini.generate` has no pieces of one, so there
  it goes out when it is complete.
* Where the upstream writes parallel tool calls side by side, the later ones wait for the earlier
  ones, except in `openai.chat`: no other format has them side by side.
* Reasons to stop that a format has no word for become the nearest one: a stop text is the end of
  the turn where there is no word for it, a full context is the limit of tokens.
* An answer with several choices is refused as an upstream error, since one choice was asked for.
* Citations, annotations and the blocks of tools that a provider runs itself are not translated.
  `X-Relay-Dropped-Params` of a whole answer names them (`answer.content[].citations`); a stream has
  sent its headers by then.
* Log probabilities of an answer with several texts are told with the first of them.
"""


def translation_page(formats: Iterable[WireFormat]) -> Iterator[str]:
    """The sections of the page."""
    codecs = {codec.format: codec for each in formats if (codec := each.codec()) is not None}
    yield INTRODUCTION
    for name, codec in codecs.items():
        others = {other: codecs[other] for other in codecs if other != name}
        yield f"## From `{name}`\n"
        yield from _table(codec, others)
        advisory = ", ".join(f"`{member}`" for member in sorted(codec.advisory))
        yield f"\nDropped as advice wherever it crosses to: {advisory}.\n"
    yield ANSWERS


def _table(codec: WireCodec, others: Mapping[str, WireCodec]) -> Iterator[str]:
    names = " | ".join(f"`{name}`" for name in others)
    yield f"| field | what it asks for | {names} |\n|---|---|{'---|' * len(others)}"
    for feature in Feature:
        fate = codec.features[feature]
        if fate.name:
            fates = " | ".join(_said(other.features[feature]) for other in others.values())
            yield f"| `{fate.name}` | {feature.value} | {fates} |"


def _said(fate: Fate) -> str:
    if fate.support is Support.CARRIED:
        return f"carried: `{fate.name}`"
    return f"{fate.support.value}: {fate.note}" if fate.note else fate.support.value
