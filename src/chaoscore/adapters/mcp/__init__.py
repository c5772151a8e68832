"""MCP on the wire: one list of tools served over stdio and Streamable HTTP, in both protocol eras.

Importing this package loads nothing heavy. ``stdio_fds`` loads next to nothing, so that a server process can move
its standard streams to safety before anything else is imported; every other module needs the MCP SDK.

    definition     what a server is, and who calls it            server    the SDK server built from a definition
    wire           tools and envelopes in MCP's shapes           jsonrpc   bytes to messages, refusals that say why
    stdio          one process, one connection                   http      an ASGI app: many callers, many connections
"""
