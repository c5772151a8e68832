"""One module per command: its options, its work, its words. None knows another; what they share is one level up."""
