"""A server that sends recorded watch events as fast as they are taken.

No API server makes twenty thousand changes a second on this machine, so one
real object, as the real API server sends it in a watch, is sent again and again
under other names and rising resourceVersions, over TLS and HTTP/1.1 in chunks,
as the real one does. Run as `watch_replay.py CERT KEY RECORDED EVENTS`; prints
its port.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from pathlib import Path

OBJECTS = 2_000
CHUNK_EVENTS = 40

EMPTY_LIST = b'{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}'


def events(recorded: dict[str, object], count: int) -> list[bytes]:
    """The body of the watch in chunks: additions first, then changes of the same objects."""
    metadata = recorded["metadata"]
    assert isinstance(metadata, dict)
    lines = []
    for number in range(count):
        metadata |= {
            "name": f"object-{number % OBJECTS}",
            "uid": f"00000000-0000-0000-0000-{number % OBJECTS:012}",
            "resourceVersion": str(number + 2),
        }
        kind = "ADDED" if number < OBJECTS else "MODIFIED"
        lines.append(json.dumps({"type": kind, "object": recorded}, separators=(",", ":")).encode() + b"\n")
    return [b"".join(lines[at : at + CHUNK_EVENTS]) for at in range(0, count, CHUNK_EVENTS)]


async def _request(reader: asyncio.StreamReader) -> bytes:
    """The head of the next request; nothing once the client has gone."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


async def main(certificate: str, key: str, body: list[bytes]) -> None:

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await _request(reader):
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            if b"watch=" not in request.split(b"\r\n", 1)[0].lower():
                writer.write(head + b"Content-Length: %d\r\n\r\n" % len(EMPTY_LIST) + EMPTY_LIST)
                continue
            writer.write(head + b"Transfer-Encoding: chunked\r\n\r\n")
            for chunk in body:
                writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                await writer.drain()
            await reader.read()  # until the client has had enough

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    certificate, key, recorded, count = sys.argv[1:]
    asyncio.run(main(certificate, key, events(json.loads(Path(recorded).read_text()), int(count))))
