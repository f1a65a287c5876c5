"""Ports of localhost that lead to containers, as Docker publishes them: a program in their network.

`python -m support.published_ports PORT=HOST:PORT... -- COMMAND...` runs a command beside them.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError), contextlib.closing(writer):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()


async def _publish(spec: str) -> asyncio.Server:
    outer, _, inner = spec.partition("=")
    host, _, port = inner.partition(":")

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answers, requests = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        await asyncio.gather(_copy(reader, requests), _copy(answers, writer))

    return await asyncio.start_server(connected, "127.0.0.1", int(outer))


async def main(words: list[str]) -> int:
    """Publish the ports until the command ends; its exit code."""
    end = words.index("--")
    servers = [await _publish(spec) for spec in words[:end]]
    process = await asyncio.create_subprocess_exec(*words[end + 1 :])
    code = await process.wait()
    for server in servers:
        server.close()
    return code


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
