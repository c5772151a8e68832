"""The deterministic policy: parsed strictly, evaluated as a pure total function, outside any model (spec §3)."""
