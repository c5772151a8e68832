"""Every bound of the kernel, with its unit last. Operators may lower or raise them in the settings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """``*_bytes_max`` count UTF-8 bytes of JSON text; ``*_seconds`` are wall time."""

    steps_max: int = 50
    items_max: int = 1_000
    concurrency_max: int = 8
    argument_bytes_max: int = 1_048_576
    output_bytes_max: int = 4_194_304
    run_output_bytes_max: int = 33_554_432
    step_seconds: float = 120.0
    run_seconds: float = 3_600.0
    wait_seconds_default: float = 45.0
    wait_seconds_max: float = 600.0
    replans_max: int = 2
    provider_calls_max: int = 8
    provider_tokens_max: int = 200_000
    provider_try_seconds: float = 60.0
    provider_seconds: float = 180.0
    recalled_memories_max: int = 8
    working_memory_max: int = 20
    lease_seconds: float = 30.0
    grant_seconds: float = 86_400.0
    decision_seconds: float = 604_800.0
    objective_chars_max: int = 8_000
    request_bytes_max: int = 4_194_304
