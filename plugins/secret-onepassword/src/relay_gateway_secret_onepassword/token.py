"""Where the access token comes from."""

from __future__ import annotations

from relay_gateway.errors import SecretDeniedError
from relay_gateway.plugin import PluginContext, Secret
from relay_gateway_secret_onepassword.models import TOKEN_VARIABLE, OnePasswordConfig


def own_token(config: OnePasswordConfig, context: PluginContext) -> Secret:
    """The token of the section, of its file, or of the environment. Raises
    :class:`SecretDeniedError` where there is none that can be sent."""
    if config.token is not None:
        token, source = config.token.get_secret_value(), "token"
    elif config.token_file is not None:
        token, source = _read(config), str(config.token_file)
    else:
        token, source = context.environ(TOKEN_VARIABLE) or "", TOKEN_VARIABLE
        context.withdraw(TOKEN_VARIABLE)
    token = token.strip()
    if token and token.isascii() and token.isprintable():
        return Secret(token)
    raise SecretDeniedError(
        f"no access token for 1Password Connect in {source}: set token or token_file in "
        f"[secret_backends.onepassword], or {TOKEN_VARIABLE}"
    )


def _read(config: OnePasswordConfig) -> str:
    try:
        return config.token_file.read_text("utf-8") if config.token_file is not None else ""
    except (OSError, UnicodeDecodeError):
        return ""
