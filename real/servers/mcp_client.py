"""The client of the MCP SDK for Python: lists the tools at a URL, calls some, and prints what it got as JSON.

    mcp_client.py URL, with the token in NEXUS_TOOLS_TOKEN
"""

import asyncio
import json
import os
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


def plain(result):
    return {
        "is_error": result.is_error,
        "content": [block.model_dump(mode="json", exclude_none=True) for block in result.content],
    }


async def main(url):
    headers = {"Authorization": f"Bearer {os.environ['NEXUS_TOOLS_TOKEN']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        async with Client(streamable_http_client(url, http_client=http)) as client:
            listed = await client.list_tools()
            calls = [("add", {"a": 20, "b": 3}), ("fail", {}), ("show", {}), ("table", {}), ("unlisted", {})]
            answers = [plain(await client.call_tool(tool, arguments)) for tool, arguments in calls]
            slow = [client.call_tool("wait", {"seconds": 1.0}) for _ in range(8)]
            parallel = [plain(answer) for answer in await asyncio.gather(*slow)]
            print(json.dumps({
                "version": str(client.protocol_version),
                "tools": [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed.tools],
                "answers": answers,
                "parallel": parallel,
            }))


asyncio.run(main(sys.argv[1]))
