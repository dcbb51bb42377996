"""Relay Gateway: a self-hosted gateway between applications and model providers."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("relay-gateway")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0.0.0"

__all__ = ["__version__"]
