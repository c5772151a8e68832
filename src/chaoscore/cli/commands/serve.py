"""``chaoscore serve`` and ``chaos-core-mcp``: the MCP server, over stdio or Streamable HTTP."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from chaoscore.cli.call import Call
from chaoscore.cli.options import add_common, add_provider, add_roots, examples, setting_flags
from chaoscore.cli.server import start_http, start_stdio

SERVER_EXAMPLES = examples(
    ("chaos-core-mcp", "what a client starts; see chaoscore install --help"),
    ("chaos-core-mcp --http --port 3000", "Streamable HTTP at http://127.0.0.1:3000/mcp"),
)
EXAMPLES = examples(
    ("chaoscore serve", "the same as chaos-core-mcp: one client over stdio"),
    ("chaoscore serve --http --port 3000", "Streamable HTTP at http://127.0.0.1:3000/mcp"),
    ("chaoscore serve --http --root ~/notes", "let fs.* capabilities touch one folder"),
)


def serve_with(args: argparse.Namespace, environ: Mapping[str, str], cwd: Path) -> int:
    if args.http:
        return start_http(setting_flags(args), environ, cwd, args.repo_root, worker=not args.no_worker)
    return start_stdio(setting_flags(args), environ, cwd)


def work(call: Call) -> int:
    return serve_with(call.args, call.environ, call.cwd)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    transport = parser.add_mutually_exclusive_group()
    transport.add_argument("--stdio", action="store_true", help="one client, on standard input and output (default)")
    transport.add_argument(
        "--http", action="store_true", help="many clients, Streamable HTTP at /mcp and /interaction/mcp"
    )
    parser.add_argument("--host", metavar="HOST", help="address to listen on with --http (default 127.0.0.1)")
    parser.add_argument("--port", metavar="PORT", help="port to listen on with --http (default 3000, 0: any free one)")
    parser.add_argument(
        "--allowed-host",
        dest="allowed_hosts",
        action="append",
        metavar="HOST[:PORT]",
        help="a Host header to serve besides the loopback names (repeat for more)",
    )
    parser.add_argument(
        "--allowed-origin",
        dest="allowed_origins",
        action="append",
        metavar="ORIGIN",
        help="an Origin header to serve (repeat for more)",
    )
    parser.add_argument(
        "--repo-root",
        metavar="DIR",
        help="the repository whose human decisions --http serves at /interaction/mcp (default: the working directory)",
    )
    parser.add_argument(
        "--no-worker",
        action="store_true",
        help="with --http: let an answered run wait until a client calls, instead of going on with it at once",
    )
    add_roots(parser)
    add_provider(parser)
    add_common(parser, json=False)
