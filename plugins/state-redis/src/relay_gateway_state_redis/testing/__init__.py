"""Real servers for tests, alone and in groups."""
