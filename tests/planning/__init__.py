"""Who plans, and what without a model is understood."""
