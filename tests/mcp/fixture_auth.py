"""Real bearer authentication for the fixture server, from the SDK's own parts, with two users and their tokens."""

from __future__ import annotations

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.provider import AccessToken
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from chaoscore.adapters.mcp.http import Authentication, oauth_principal

USERS = {"token-of-ada": "ada", "token-of-bob": "bob"}


class _Tokens:
    async def verify_token(self, token: str) -> AccessToken | None:
        user = USERS.get(token)
        if user is None:
            return None
        claims = {"iss": "https://id.example"}
        return AccessToken(token=token, client_id="client", scopes=["use"], subject=user, claims=claims)


def bearer_tokens() -> Authentication:
    def wrap(app: ASGIApp) -> ASGIApp:
        required = RequireAuthMiddleware(AuthContextMiddleware(app), ["use"])
        return AuthenticationMiddleware(required, backend=BearerAuthBackend(_Tokens()))

    return Authentication(wrap, oauth_principal)


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    """A mounted app."""
    await PlainTextResponse("hello")(scope, receive, send)
