"""A scrape of ``GET /metrics``, read as Prometheus reads it."""

from __future__ import annotations

from dataclasses import dataclass

import httpx
from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True, slots=True)
class Scrape:
    """Samples by name, each with its labels and value; ``text`` is what they were read from."""

    text: str
    samples: tuple[tuple[str, dict[str, str], float], ...]

    @classmethod
    async def of(cls, control: httpx.AsyncClient) -> Scrape:
        """Asks a control plane; fails the test when the answer is no exposition."""
        answer = await control.get("/metrics")
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        return cls.read(answer.text)

    @classmethod
    def read(cls, text: str) -> Scrape:
        """Reads an exposition; fails the test when a series is there twice."""
        samples = tuple(
            (sample.name, sample.labels, sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        )
        different = {(name, frozenset(labels.items())) for name, labels, _ in samples}
        assert len(different) == len(samples), "a series is there twice"
        return cls(text, samples)

    def total(self, name: str, **labels: str) -> float:
        """The sum of all samples of this name with at least these labels; 0 without any."""
        return sum(
            value
            for found, its, value in self.samples
            if found == name and labels.items() <= its.items()
        )

    def by(self, name: str, *labels: str) -> dict[tuple[str, ...], float]:
        """Sums of the samples of this name, by the values of ``labels``."""
        sums: dict[tuple[str, ...], float] = {}
        for found, its, value in self.samples:
            if found == name:
                key = tuple(its[label] for label in labels)
                sums[key] = sums.get(key, 0) + value
        return sums
