"""The command line: flags in, services called, people answered. Everything it shows comes from the services below."""
