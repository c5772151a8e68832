"""The only module that names concrete adapters: it builds the application from settings."""
