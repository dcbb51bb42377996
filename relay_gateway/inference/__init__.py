"""The wire-facing side of the data plane: routes, gateway headers, errors in the caller's
dialect."""
