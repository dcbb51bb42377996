"""Security decisions as pure functions: relay keys, the admin bearer, the master key ring."""
