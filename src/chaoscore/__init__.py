"""Chaos Core: the governed decision kernel for AI agents, served over MCP.

Importing this package is cheap on purpose: every agent starts its own server process, so nothing heavy
is loaded until it is used.
"""

__version__ = "0.1.0"
