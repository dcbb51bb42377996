"""One inference request from its first byte to its usage record; knows no HTTP framework and no
database."""
