"""MCP served by real processes, spoken to by real clients and by raw bytes."""
