"""The local webhook: an authenticated `POST /webhook` triggers a sync, and does nothing else.

The server is off unless there is a secret. It limits the body before reading it, and reads it only to
authenticate the request (`stoker.http_server.request_signatures`). It never interprets the payload: the ref
comes from the configuration and its commit from the source. After 100 failed requests within 60 seconds it
answers 429 until the oldest failure is 60 seconds old.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from aiohttp import web

from stoker.domain.clock import Clock, SystemClock
from stoker.domain.errors import Misconfigured, StokerError
from stoker.domain.secrets import Secret
from stoker.http_server.request_signatures import MAX_BODY, is_authentic, read_capped
from stoker.kube.client.deadlines import deadline
from stoker.telemetry.logs import get_logger
from stoker.telemetry.probes import QuietHandler, parse_address

BODY_SECONDS = 10.0
SHUTDOWN_SECONDS = 2.0
MAX_FAILURES = 100
FAILURES_WITHIN = 60.0

_PATH = "/webhook"
_HEADERS = {"Server": "stoker", "Cache-Control": "no-store"}

log = get_logger(__name__)

WebhookSecretsReader = Callable[[], Sequence[Secret]]


class LocalWebhookServer:
    """Listens while its `async with` block runs."""

    def __init__(
        self,
        address: str,
        secrets: WebhookSecretsReader,
        nudge: Callable[[str], None],
        *,
        clock: Clock | None = None,
    ) -> None:
        self._address = parse_address(address)
        self._secrets = secrets
        self._nudge = nudge
        self._clock = clock if clock is not None else SystemClock()
        self._failures: deque[float] = deque(maxlen=MAX_FAILURES)
        self._runner: web.ServerRunner | None = None
        self.port: int | None = None

    async def __aenter__(self) -> Self:
        if self._address is None:
            return self
        self._runner = web.ServerRunner(
            _LocalWebhookHttpServer(self._answer), shutdown_timeout=SHUTDOWN_SECONDS
        )
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._address.host or None, self._address.port).start()
        except OSError as error:
            await self._runner.cleanup()
            raise Misconfigured(f"cannot listen on {self._address} for webhooks: {error.strerror}") from error
        self.port = self._runner.addresses[0][1]
        log.info("webhook.listening", address=str(self._address), port=self.port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._shut():
            return _text_response(429, "too many failures")
        if request.path != _PATH or request.method != "POST":
            return self._refused(404, "not found")
        if (request.content_length or 0) > MAX_BODY:
            return self._refused(413, "too large")
        body = await self._body(request)
        if body is None:
            return self._refused(413, "too large or too slow")
        if not self._known(request.headers, body):
            return self._refused(401, "unauthorized")
        self._nudge("webhook")
        return _text_response(202, "accepted")

    async def _body(self, request: web.BaseRequest) -> bytes | None:
        try:
            async with deadline(self._clock, BODY_SECONDS):
                return await read_capped(request.content.iter_any(), MAX_BODY)
        except TimeoutError:
            return None

    def _known(self, headers: Mapping[str, str], body: bytes) -> bool:
        try:
            secrets = self._secrets()
        except StokerError as error:
            log.warning("webhook.secret_unreadable", error=error.message)
            return False
        return any(is_authentic(headers, body, secret) for secret in secrets if secret)

    def _refused(self, status: int, text: str) -> web.Response:
        self._failures.append(self._clock.monotonic())
        response = _text_response(status, text)
        response.force_close()
        return response

    def _shut(self) -> bool:
        full = len(self._failures) == MAX_FAILURES
        return full and self._clock.monotonic() - self._failures[0] < FAILURES_WITHIN


class _LocalWebhookHttpServer(web.Server):
    def __call__(self) -> web.RequestHandler:
        # Do not wait for the rest of a refused body.
        return QuietHandler.for_connection(self, lingering_time=0.0)


def _text_response(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=f"{text}\n", headers=_HEADERS)
