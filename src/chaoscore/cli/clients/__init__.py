"""Other programs' configuration files: where they are, and edits that change one entry and not a byte besides."""
