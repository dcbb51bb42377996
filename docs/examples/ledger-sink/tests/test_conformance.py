"""What every usage sink promises; `relay-gateway plugins check` runs the same."""

from relay_gateway_log_ledger.conformance import *  # noqa: F403 - test classes are collected
