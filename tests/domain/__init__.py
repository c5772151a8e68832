"""The domain: exhaustive tables and properties."""
