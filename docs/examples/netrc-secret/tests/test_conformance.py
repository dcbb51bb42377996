"""What every secret backend promises; `relay-gateway plugins check` runs the same."""

from relay_gateway_secret_netrc.conformance import *  # noqa: F403 - test classes are collected
