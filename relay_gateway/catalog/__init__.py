"""The catalog: what the eight kinds are and the immutable snapshot that requests read. No I/O."""
