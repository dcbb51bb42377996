"""A plugin whose vendor SDK is not installed."""

import relay_fixture_vendor_sdk  # type: ignore[import-not-found]

CLIENT = relay_fixture_vendor_sdk.Client()
