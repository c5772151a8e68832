"""The kernel's tools: what they are called, what they take, what they answer. The one list for every transport."""
