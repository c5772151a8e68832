"""Approvals over the real kernel under random schedules; ``python -m tests.sim_approvals SEED`` replays one."""
