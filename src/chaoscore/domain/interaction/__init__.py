"""The human-decision runtime as values and rules: sessions, decisions, responses, change locks, resume capsules.

Above it stands ``app.interactions``, which decides with these values; below it nothing. Field names, enum values and
formats are those of the shared folder format (schema version 1), because other programs read and write the same files.
"""
