"""Keeps the AWS SDK's debugging records out of every log: they quote answers with secrets."""

from __future__ import annotations

import logging

LIBRARIES = ("boto3", "botocore", "s3transfer", "urllib3")


class NothingBelowWarning(logging.Filter):
    """Drops a record that is no warning, whatever the level of its logger is set to."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record may be shown."""
        return record.levelno >= logging.WARNING


_filter = NothingBelowWarning()


def silence_sdk() -> None:
    """Puts the filter on each logger that the SDK has made by now.

    Each needs its own: a filter is not asked about the records of the loggers below.
    """
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in LIBRARIES:
            # Twice the same filter is once.
            logging.getLogger(name).addFilter(_filter)
