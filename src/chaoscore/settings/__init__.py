"""The only package that reads the environment, ``.env`` and flags: once, into one frozen value.

The command line stands above it and hands it the flags and the environment; bootstrap builds the application from what
it answers. A flag beats the environment, the environment beats ``.env`` in the working directory, and that beats the
default. Whatever is not understood is refused with the name of the setting and what to write (spec §10).
"""

from chaoscore.settings.load import load_settings
from chaoscore.settings.model import LogLevel, LogStream, Secret, Settings

__all__ = ["LogLevel", "LogStream", "Secret", "Settings", "load_settings"]
