"""The kernel as a whole, over real SQLite, with small real capabilities of its own."""
