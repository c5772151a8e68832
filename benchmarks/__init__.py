"""Performance bars, each a script that prints ratios against a baseline measured in the same run."""
