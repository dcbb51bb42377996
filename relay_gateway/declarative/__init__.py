"""The catalog as files: what they declare is planned, shown, and written in one transaction."""
