"""``relay-gateway migrate``: the database schema, brought to this version."""

from __future__ import annotations

import typer

from relay_gateway.cli.invocation import prepared_of


def migrate(context: typer.Context) -> None:
    """Bring the database to the schema of this version. `serve` does it, too."""
    import asyncio

    from relay_gateway.cli.output import say
    from relay_gateway.server import migrate as migrate_database
    from relay_gateway.settings import without_password

    settings = prepared_of(context).settings
    asyncio.run(migrate_database(settings))
    say(f"{without_password(settings.database_url)} has the schema of this version")
