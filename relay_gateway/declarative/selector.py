"""Label selectors: ``team=search`` and ``team=search,stage=test``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from relay_gateway.errors import ConfigurationError

Selector = Mapping[str, str]


def parse_selector(texts: Sequence[str]) -> Selector:
    """The labels that must all be there. Raises :class:`ConfigurationError`."""
    wanted: dict[str, str] = {}
    for text in _parts(texts):
        name, separator, value = text.partition("=")
        if not (name and separator) or wanted.setdefault(name, value) != value:
            raise ConfigurationError(
                f"the selector {text!r} is not NAME=VALUE, or contradicts another one"
            )
    return wanted


def selects(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Whether ``labels`` has all that ``selector`` wants."""
    return all(labels.get(name) == value for name, value in selector.items())


def _parts(texts: Sequence[str]) -> Iterable[str]:
    return (part.strip() for text in texts for part in text.split(","))
