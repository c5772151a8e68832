"""Recorded cases of the original decision server, run against ours."""
