"""The data directory and the secrets that the gateway makes for itself."""

from __future__ import annotations

import base64
import logging
import os
import secrets
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from relay_gateway.errors import SettingsError
from relay_gateway.secret import Secret
from relay_gateway.settings.model import Settings

MASTER_KEY_FILE = "master-key"
ADMIN_TOKEN_FILE = "admin-token"  # noqa: S105 - the name of a file
_logger = logging.getLogger(__name__)


class Prepared(msgspec.Struct, frozen=True):
    """Settings that are complete, and where the secrets in them that the gateway made lie.

    ``created`` are the files among them that did not exist before.
    """

    settings: Settings
    master_key_file: Path | None = None
    admin_token_file: Path | None = None
    created: tuple[Path, ...] = ()


def prepare_data_dir(settings: Settings) -> Prepared:
    """Makes the data directory and, with the embedded database, the secrets not configured.

    Sets the umask of the process to 077, so that whatever is written later is the owner's alone.
    The secrets of an earlier start are read back. Raises :class:`SettingsError` when the directory
    or a file in it cannot be used, and when a database lies there whose master key is gone.
    """
    os.umask(0o077)
    try:
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _with_secrets(settings) if settings.database_file else Prepared(settings)
    except OSError as error:
        raise SettingsError(
            f"data_dir: {error.filename or settings.data_dir} cannot be used: {error.strerror}; "
            "set RELAY_DATA_DIR to a directory that this user may write"
        ) from error


def _with_secrets(settings: Settings) -> Prepared:
    key_file = settings.data_dir / MASTER_KEY_FILE
    token_file = settings.data_dir / ADMIN_TOKEN_FILE
    created: list[Path] = []
    filled: dict[str, object] = {}
    if not settings.master_key:
        _refuse_orphaned_database(settings, key_file)
        text = _read_or_create(key_file, new_master_key, created).reveal()
        # An operator who rotates the generated key puts the new one in front of it.
        filled["master_key"] = tuple(
            Secret(part.strip()) for part in text.split(",") if part.strip()
        )
    if settings.admin_token is None:
        filled["admin_token"] = _read_or_create(token_file, new_admin_token, created)
    return Prepared(
        settings.model_copy(update=filled),
        master_key_file=key_file if "master_key" in filled else None,
        admin_token_file=token_file if "admin_token" in filled else None,
        created=tuple(created),
    )


def _refuse_orphaned_database(settings: Settings, key_file: Path) -> None:
    database = settings.database_file
    if database is None or key_file.exists() or not database.exists():
        return
    raise SettingsError(
        f"master_key: the database {database} exists, but the key that seals its credentials is "
        f"neither in RELAY_MASTER_KEY nor in {key_file}; put it back, or give up the credentials "
        "stored there by setting RELAY_MASTER_KEY to a new key (32 random bytes in base64)"
    )


def new_master_key() -> str:
    """A new master key: 32 random bytes in standard base64."""
    return base64.b64encode(secrets.token_bytes(32)).decode()


def new_admin_token() -> str:
    """A new admin token of 256 random bits."""
    return secrets.token_urlsafe(32)


def _read_or_create(path: Path, make: Callable[[], str], created: list[Path]) -> Secret:
    if not path.exists() and _create(path, make()):
        created.append(path)
    _warn_of_readers(path)
    value = path.read_text("ascii", errors="replace").strip()
    if not value:
        raise SettingsError(f"{path} is empty; delete it to have a new secret made, or restore it")
    return Secret(value)


def _create(path: Path, value: str) -> bool:
    """Writes the file whole or not at all; ``False`` when another process was first."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(value + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(name, path)
    except FileExistsError:
        return False
    finally:
        Path(name).unlink()
    return True


def _warn_of_readers(path: Path) -> None:
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        _logger.warning("%s can be read by other users; run: chmod 600 %s", path, path)
