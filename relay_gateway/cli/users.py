"""``relay-gateway users``: what the passwords of the control plane's users are kept as."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from relay_gateway.errors import ConfigurationError
from relay_gateway.secret import Secret

app = typer.Typer(help="Users of the control plane.", no_args_is_help=True)


@app.callback()
def users() -> None:
    """Users of the control plane."""


@app.command("hash-password")
def hash_password(
    rounds: Annotated[
        int, typer.Option(min=10, max=16, help="Cost of the hash, as a power of two.")
    ] = 12,
) -> None:
    """Print the bcrypt hash of a password, for RELAY_ADMIN_PASSWORD or `[[users]]`.

    The password is asked for on a terminal, and otherwise read from the first line of standard
    input; it is never an argument, which other users of the machine could see.
    """
    from relay_gateway.cli.output import say
    from relay_gateway.security import passwords

    try:
        say(passwords.hash_password(_read_password(), rounds))
    except ValueError as error:
        raise ConfigurationError(str(error)) from error


def _read_password() -> Secret:
    if sys.stdin.isatty():
        return Secret(typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    return Secret(sys.stdin.readline().rstrip("\r\n"))
