"""The client of the MCP SDK for Python over stdio: starts a server, lists its tools, makes calls, and prints what it got as JSON.

    mcp_stdio_client.py MODE CALLS PROGRAM [ARGUMENT]...

MODE is how the client begins: `auto`, `legacy`, or a revision. CALLS is a JSON list of pairs: the name of a tool, and its
arguments. The server inherits the environment.
"""

import asyncio
import json
import os
import sys

from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.types import ListRootsResult, Root


def plain(result):
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


async def roots(_context):
    return ListRootsResult(roots=[Root(uri="file:///a")])


async def main(mode, calls, program, *arguments):
    server = StdioServerParameters(command=program, args=list(arguments), env=dict(os.environ))
    told = []

    async def progress(count, _total, message):
        told.append([count, message])

    async with Client(server, mode=mode, list_roots_callback=roots) as client:
        listed = await client.list_tools()
        answers = []
        for tool, given in json.loads(calls):
            try:
                answers.append(plain(await client.call_tool(tool, given, progress_callback=progress)))
            except Exception as error:
                answers.append({"refused": str(error)})
        print(json.dumps({
            "version": str(client.protocol_version),
            "instructions": client.instructions,
            "tools": [plain(tool) for tool in listed.tools],
            "answers": answers,
            "progress": told,
        }))


asyncio.run(main(*sys.argv[1:]))
