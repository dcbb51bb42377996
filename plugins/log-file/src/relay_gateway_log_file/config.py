"""Where records and payloads go and how long they stay: two sections of ``relay.toml``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import ByteSize, Field, field_validator

from relay_gateway.plugin import PluginConfig, PluginContext

STANDARD_OUTPUT = "-"
MIB = 1024 * 1024
GIB = 1024 * MIB


class FileSinkConfig(PluginConfig):
    """``[usage_sinks.file]``. Sizes are bytes or have a unit (`64MiB`)."""

    path: str | None = Field(
        default=None,
        min_length=1,
        description="The file that records are appended to; rotated ones lie beside it. Unset: "
        "`usage/usage.jsonl` in the data directory. `-` is standard output, which does not rotate "
        "and cannot be read back.",
    )
    sync: Literal["always", "interval", "never"] = Field(
        default="always",
        description="When records outlive a power cut: each batch before it counts as written, "
        "every `sync_seconds`, or when the operating system likes.",
    )
    sync_seconds: float = Field(
        default=1.0,
        gt=0,
        le=3600,
        allow_inf_nan=False,
        description='How long records of `sync = "interval"` may wait for the disk.',
    )
    rotate: Literal["never", "hourly", "daily"] = Field(
        default="daily",
        description="At the turn of which hour or day (UTC) the next batch begins a new file.",
    )
    max_bytes: ByteSize = Field(
        default=ByteSize(64 * MIB),
        ge=4096,
        description="A batch that would make the file larger than this begins a new one.",
    )
    compress: bool = Field(default=True, description="Whether rotated files are gzipped.")
    retention_days: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="Rotated files whose newest record began longer ago are deleted; unset keeps "
        "them.",
    )
    retention_bytes: ByteSize | None = Field(
        default=None,
        ge=4096,
        description="The oldest rotated files are deleted while all files together are larger; "
        "unset keeps them.",
    )
    read_bytes: ByteSize = Field(
        default=ByteSize(1024 * MIB),
        ge=4096,
        description="A list or a summary that would have to read more lines than this, "
        "uncompressed, is refused.",
    )

    @field_validator("path")
    @classmethod
    def _check_path(cls, path: str | None) -> str | None:
        if path is not None and (path.endswith("/") or "\0" in path):
            raise ValueError("must name a file, or be - for standard output")
        return path


class FilePayloadsConfig(PluginConfig):
    """``[payload_loggers.file]``. Sizes are bytes or have a unit (`64MiB`)."""

    path: str | None = Field(
        default=None,
        min_length=1,
        pattern=r"^[^\x00]+$",
        description="The directory for payloads, of its own. Unset: `payloads` in the data "
        "directory.",
    )
    sync: Literal["always", "never"] = Field(
        default="always",
        description="When payloads outlive a power cut: each before it counts as written, or when "
        "the operating system likes.",
    )
    retention_days: float = Field(
        default=7.0,
        gt=0,
        le=36_500,
        allow_inf_nan=False,
        description="Payloads of requests that began longer ago are deleted, an hour at a time.",
    )
    retention_bytes: ByteSize = Field(
        default=ByteSize(10 * GIB),
        ge=4096,
        description="The oldest payloads are deleted while all together are larger. Between two "
        "looks a sixteenth more may be written by each process.",
    )


def locate_payloads(config: FilePayloadsConfig, context: PluginContext) -> Path:
    """The directory of payloads."""
    if config.path is None:
        return context.data_dir.absolute() / "payloads"
    return Path(config.path).expanduser().absolute()


def locate(config: FileSinkConfig, context: PluginContext) -> Path | None:
    """The file that is written to; ``None`` is standard output."""
    if config.path == STANDARD_OUTPUT:
        return None
    if config.path is None:
        return context.data_dir.absolute() / "usage" / "usage.jsonl"
    return Path(config.path).expanduser().absolute()
