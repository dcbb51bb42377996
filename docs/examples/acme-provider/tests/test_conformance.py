"""What every upstream provider promises; `relay-gateway plugins check` runs the same."""

from relay_gateway_provider_acme.conformance import *  # noqa: F403 - test classes are collected
