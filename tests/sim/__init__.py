"""A seeded simulation of many agents, humans and other programs on one folder, with an auditor that predicts."""
