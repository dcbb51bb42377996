"""Keeps the debugging records of the AWS SDK out of every log: they quote bodies and tokens."""

from __future__ import annotations

import logging

_LIBRARIES = ("boto3", "botocore", "s3transfer", "urllib3")


def _is_warning(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING


def silence_sdk() -> None:
    """Drops what is no warning, whatever level somebody sets, of each logger that is there by now:
    a filter is not asked about the records of the loggers below."""
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in _LIBRARIES:
            # Twice the same filter is once.
            logging.getLogger(name).addFilter(_is_warning)
