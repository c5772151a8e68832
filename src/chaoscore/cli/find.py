"""Runs by the name a person has at hand: the label that is shown everywhere, the id, the plan's, or ``last``."""

from __future__ import annotations

from chaoscore.bootstrap import Kernel
from chaoscore.domain.errors import NotFound


async def run_id(kernel: Kernel, name: str) -> str:
    """The id that the services take. Raises ``NotFound``."""
    if name.startswith(("run_", "plan_")):
        return name if name.startswith("run_") else await _of_plan(kernel, name)
    if name == "last":
        runs, _ = await kernel.services.runs.list(kernel.principal, 1, None)
        if runs and runs[0].handle is not None:
            return runs[0].handle
        raise NotFound("there is no run yet", key="run")
    runs_store, label = kernel.stores.runs, name
    run = await (runs_store.run_of_plan(label) if label.startswith("p-") else runs_store.load_run(label))
    if run is None or run.owner != kernel.principal.key or run.handle is None:
        raise NotFound(f"there is no run {name!r} of yours", key="run")
    return run.handle


async def _of_plan(kernel: Kernel, plan_id: str) -> str:
    stored = await kernel.stores.plans.find_plan(plan_id, kernel.principal)
    run = await kernel.stores.runs.run_of_plan(stored.plan.label) if stored is not None else None
    if run is None or run.handle is None:
        raise NotFound(f"there is no run of plan {plan_id!r}", key="plan")
    return run.handle
