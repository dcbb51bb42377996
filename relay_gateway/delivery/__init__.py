"""From a settled request to the sinks: usage records in batches, retried, never felt by a
caller."""
