"""``/auth``: login, logout, and who one is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from fastapi import FastAPI, Query, Request
from pydantic import Field, SecretStr
from starlette.responses import JSONResponse, Response

from relay_gateway.control.authenticate import Identity, cross_site, session_token
from relay_gateway.control.bodies import read_object, validate
from relay_gateway.control.openapi import Documentation, Operation
from relay_gateway.control.services import ControlServices
from relay_gateway.control.sessions import Login, Sessions
from relay_gateway.errors import InvalidEntityError
from relay_gateway.plugin import CatalogModel
from relay_gateway.secret import Secret
from relay_gateway.security.csrf import origin_problem
from relay_gateway.security.sessions import ABSOLUTE_SECONDS, COOKIE
from relay_gateway.storage.audit import acting

Everywhere = Annotated[
    bool, Query(alias="all", description="End every session of this user; with the admin token, of "
                "all users.")
]  # fmt: skip


class Credentials(CatalogModel):
    """Who logs in."""

    username: Annotated[str, Field(min_length=1, max_length=200)]
    password: Annotated[SecretStr, Field(min_length=1, max_length=1024)]


class LoggedIn(CatalogModel):
    """A new session, whose token is in the cookie."""

    username: str
    expires_at: datetime


class LoggedOut(CatalogModel):
    """How many sessions were ended."""

    sessions: int


class Caller(CatalogModel):
    """The authenticated caller."""

    username: str
    method: Literal["session", "admin-token"]
    expires_at: datetime | None = None


class SessionRoutes:
    """The routes that begin, end and show sessions."""

    def __init__(self, services: ControlServices, docs: Documentation, sessions: Sessions) -> None:
        self._access = services.access
        self._docs = docs
        self._sessions = sessions

    def add_to(self, app: FastAPI) -> None:
        """Adds the routes to ``app``."""
        login = Operation(
            "logIn",
            "Begin a session",
            (401, 403, 413, 415, 422, 429, 503),
            public=True,
            description="Sets the cookie `relay_session`, and ends the session that came with the "
            "request.",
            no_dry_run="a password that is only tried counts as well",
        )
        app.add_api_route(
            "/auth/login",
            self._log_in,
            methods=["POST"],
            response_model=LoggedIn,
            tags=["authentication"],
            **self._docs.describe(login, body=Credentials),
        )
        app.add_api_route(
            "/auth/logout",
            self._log_out,
            methods=["POST"],
            response_model=LoggedOut,
            tags=["authentication"],
            **self._docs.describe(
                Operation(
                    "logOut",
                    "End this session, or all of them",
                    description="That of the cookie; with the admin token and without `all` none.",
                    no_dry_run="nothing but sessions is changed",
                )
            ),
        )
        app.add_api_route(
            "/auth/whoami",
            self._whoami,
            methods=["GET"],
            response_model=Caller,
            tags=["authentication"],
            **self._docs.describe(
                Operation("getCaller", "The authenticated caller", description="And until when.")
            ),
        )

    async def _log_in(self, request: Request) -> Response:
        problem = origin_problem(request.headers, self._access.cors_origins)
        if problem is not None:
            raise cross_site(problem)
        body, problems = validate(Credentials, await read_object(request))
        if body is None:
            raise InvalidEntityError(problems)
        password = Secret(body.password.get_secret_value())
        login = await self._sessions.log_in(
            body.username, password, acting.get().address or "", session_token(request.headers)
        )
        answer = _answer(LoggedIn(username=body.username, expires_at=_moment(login.expires_at)))
        self._set_cookie(answer, login)
        return answer

    async def _log_out(self, request: Request, *, everywhere: Everywhere = False) -> Response:
        identity: Identity = request.state.identity
        ended = await self._sessions.log_out(
            identity.session, identity.username, everywhere=everywhere
        )
        answer = _answer(LoggedOut(sessions=ended))
        answer.delete_cookie(
            COOKIE, secure=self._access.cookie_secure, httponly=True, samesite="strict"
        )
        return answer

    async def _whoami(self, request: Request) -> Response:
        identity: Identity = request.state.identity
        expires = _moment(identity.expires_at) if identity.expires_at is not None else None
        return _answer(
            Caller(username=identity.username, method=identity.method, expires_at=expires)
        )

    def _set_cookie(self, answer: Response, login: Login) -> None:
        answer.set_cookie(
            COOKIE,
            login.token.reveal(),
            max_age=ABSOLUTE_SECONDS,
            secure=self._access.cookie_secure,
            httponly=True,
            samesite="strict",
        )


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _answer(body: CatalogModel) -> Response:
    return JSONResponse(body.model_dump(mode="json", by_alias=True, exclude_none=True))
