"""The decision runtime: rules, service, folder."""
