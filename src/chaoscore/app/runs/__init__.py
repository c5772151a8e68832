"""Durable runs: opening, driving, joining, cancelling and resolving them."""
