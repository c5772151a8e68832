"""The command line and the settings, through real files and real processes."""
