"""Google Cloud Storage as far as snapshots need it: its XML API over http, objects in memory.

    with Gcs.start() as store:
        storage = buckets.gcs(store.bucket("plant"), "site", store.credentials)

Every request must carry a token that is signed by the service account's own key, as
the real one asks for. Objects are put whole or in parts, read by ranges, listed by
prefix and deleted; anything else is answered with 501. It takes the place of a service
that cannot be had here, so it shows that the requests are right, not that Google
takes them.
"""

from __future__ import annotations

import base64
import json
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from stoker.domain.intent.policies import SnapshotBucketPolicy
from stoker.domain.secrets import Secret
from stoker_testkit.secret_leaks.tracked_credentials import known
from stoker_testkit.stoppable import Stoppable

ACCOUNT = "stoker@plant.iam.gserviceaccount.com"


class Gcs(Stoppable):
    """One running service with one account."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        """By `bucket/key`."""
        self.refused = 0
        """The number of requests without a valid token."""
        self._uploads: dict[str, dict[int, bytes]] = {}
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @classmethod
    def start(cls) -> Self:
        store = cls()
        store._thread.start()
        return store

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def credentials(self) -> dict[str, Secret]:
        """The content of the Secret of a service account."""
        pem = self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        account = {
            "type": "service_account",
            "client_email": ACCOUNT,
            "private_key_id": "1",
            "private_key": known("account-key", pem.decode()),
        }
        return {"serviceAccount.json": Secret(json.dumps(account))}

    def bucket(self, name: str, *, key_prefix: str = "") -> SnapshotBucketPolicy:
        url = f"http://127.0.0.1:{self._server.server_address[1]}"
        return SnapshotBucketPolicy(name=name, key_prefix=key_prefix, endpoint=url)

    def knows(self, authorization: str) -> bool:
        """Whether a token is signed by the account and still good."""
        try:
            head, claims, signature = authorization.removeprefix("Bearer ").split(".")
            self._key.public_key().verify(
                _decoded(signature), f"{head}.{claims}".encode(), padding.PKCS1v15(), hashes.SHA256()
            )
            details = json.loads(_decoded(claims))
            return bool(details["iss"] == ACCOUNT and details["iat"] - 60 <= time.time() <= details["exp"])
        except (ValueError, KeyError, InvalidSignature):
            return False

    def answer(self, method: str, key: str, query: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """The XML API's response to a request for an object or, without a key, for the list."""
        upload = query.get("uploadId", "")
        if method == "GET" and "/" not in key:
            return 200, self._listing(key, query.get("prefix", ""))
        if method == "GET":
            return (200, self.objects[key]) if key in self.objects else (404, _error("NoSuchKey"))
        if method == "DELETE":
            gone = self._uploads.pop(upload, None) is not None or self.objects.pop(key, None) is not None
            return (204, b"") if gone else (404, _error("NoSuchKey"))
        if method == "POST" and "uploads" in query:
            upload = uuid.uuid4().hex
            self._uploads[upload] = {}
            content = f"<Bucket>b</Bucket><Key>k</Key><UploadId>{upload}</UploadId>"
            return 200, _xml("InitiateMultipartUploadResult", content)
        if upload and upload not in self._uploads:
            return 404, _error("NoSuchUpload")  # it was given up meanwhile
        if method == "PUT" and upload:
            self._uploads[upload][int(query["partNumber"])] = body
            return 200, b""
        if method == "POST" and upload:
            parts = self._uploads.pop(upload)
            self.objects[key] = b"".join(parts[number] for number in sorted(parts))
            return 200, _xml("CompleteMultipartUploadResult", "<ETag>e</ETag>")
        if method == "PUT":
            self.objects[key] = body
            return 200, b""
        return 501, _error("NotImplemented")

    @property
    def unfinished(self) -> int:
        """The number of uploads that were neither completed nor aborted."""
        return len(self._uploads)

    def _listing(self, bucket: str, prefix: str) -> bytes:
        found = sorted(name for name in self.objects if name.startswith(f"{bucket}/{prefix}"))
        rows = "".join(
            f"<Contents><Key>{escape(name.partition('/')[2])}</Key><Size>{len(self.objects[name])}</Size>"
            "<LastModified>2026-02-12T10:00:00.000Z</LastModified><ETag>e</ETag></Contents>"
            for name in found
        )
        return _xml("ListBucketResult", rows)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        store = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _do(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                where = urlsplit(self.path)
                query = dict(parse_qsl(where.query, keep_blank_values=True))
                if not store.knows(self.headers.get("Authorization") or ""):
                    store.refused += 1
                    return self._say(401, _error("AuthenticationRequired"))
                status, content = store.answer(self.command, unquote(where.path[1:]), query, body)
                wanted = self.headers.get("Range")
                if status == 200 and wanted and self.command == "GET":
                    return self._say_part(content, wanted)
                return self._say(status, content)

            do_GET = do_PUT = do_POST = do_DELETE = _do  # noqa: N815 - the names that the server calls

            def _say_part(self, whole: bytes, wanted: str) -> None:
                first, _, last = wanted.removeprefix("bytes=").partition("-")
                start, end = int(first), min(int(last or len(whole)), len(whole) - 1)
                if start >= len(whole):
                    return self._say(416, _error("InvalidRange"))
                details = {"Content-Range": f"bytes {start}-{end}/{len(whole)}"}
                return self._say(206, whole[start : end + 1], details)

            def _say(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
                self.send_response(status)
                details = {"Content-Length": str(len(content)), "ETag": '"e"', "x-goog-generation": "1"}
                details["Last-Modified"] = "Thu, 12 Feb 2026 10:00:00 GMT"
                for name, value in (details | (headers or {})).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                """Requests are not logged."""

        return Handler


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _error(code: str) -> bytes:
    return _xml("Error", f"<Code>{code}</Code>")


def _xml(name: str, inside: str) -> bytes:
    return f"<?xml version='1.0' encoding='UTF-8'?><{name}>{inside}</{name}>".encode()
