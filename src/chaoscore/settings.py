"""The only module that reads the environment, ``.env``, config files and flags: once, into one frozen value."""
