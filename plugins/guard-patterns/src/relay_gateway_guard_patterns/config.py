"""The section ``[guards.patterns]``."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from relay_gateway.plugin import GuardConfig
from relay_gateway_guard_patterns.patterns import check_pattern

Place = Literal["system", "messages", "tool_arguments", "tool_results"]
EVERYWHERE: tuple[Place, ...] = ("system", "messages", "tool_arguments", "tool_results")


class Rule(BaseModel):
    """``[[guards.patterns.rules]]``: a pattern, and what becomes of what it matches."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}$",
        description="What callers, logs and records are told that matched.",
    )
    pattern: Annotated[str, AfterValidator(check_pattern)] = Field(
        description="In the syntax of RE2, which has neither look-around nor back-references."
    )
    action: Literal["deny", "mask"] = Field(
        default="deny", description="Refuse the request or the answer, or replace what matches."
    )
    replacement: str | None = Field(
        default=None,
        max_length=200,
        description="What a mask puts in its place, as it stands; unset: the name in brackets.",
    )
    places: tuple[Place, ...] = Field(
        default=EVERYWHERE,
        min_length=1,
        description="Where it looks: `system` (also `developer`), `messages` of users and models, "
        "`tool_arguments`, `tool_results`.",
    )
    direction: Literal["request", "response", "both"] = Field(
        default="both", description="Whether it looks at requests, at answers, or at both."
    )

    @property
    def mask(self) -> str:
        """What is put in place of a match."""
        return f"[{self.name}]" if self.replacement is None else self.replacement


class PatternsConfig(GuardConfig):
    """Without rules the guard lets everything go on."""

    rules: tuple[Rule, ...] = Field(
        default=(), max_length=100, description="One table for each pattern; see below."
    )
    window: int = Field(
        default=128,
        ge=1,
        le=4096,
        description="How many characters of a streamed text are held back, so that a match of that "
        "length is found however it is cut. Longer ones are found where they are not cut, or "
        "within eight times as many.",
    )

    @model_validator(mode="after")
    def _named_once(self) -> Self:
        names = [rule.name for rule in self.rules]
        if len(set(names)) < len(names):
            raise ValueError("rules: two rules have the same name")
        return self
