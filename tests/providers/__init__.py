"""Providers against real HTTP servers on loopback."""
