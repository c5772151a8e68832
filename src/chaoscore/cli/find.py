"""Runs by the name a person has at hand: the label that is shown everywhere, the id, the plan's, or ``last``.

Whoever owns the data directory answers for every run in it, also for those of callers over HTTP who hold an id that is
stored nowhere; so runs are looked up by label here.
"""

from __future__ import annotations

from chaoscore.app.runs.book import ExecuteRequest
from chaoscore.bootstrap import Kernel
from chaoscore.cli.suggesting import command
from chaoscore.domain.errors import NotFound


async def find_run(kernel: Kernel, name: str) -> ExecuteRequest:
    """The run that ``name`` means, as the services take it. Raises ``NotFound``."""
    return ExecuteRequest(label=await _label(kernel, name))


async def run_id(kernel: Kernel, name: str) -> str:
    """The ``run_…`` id of one of your own runs. Raises ``NotFound``."""
    run = await kernel.stores.runs.load_run(await _label(kernel, name))
    if run is None or run.handle is None:
        raise NotFound(f"the id of run {name!r} is known to its caller alone; see {command('run', 'show')}", key="run")
    return run.handle


async def _label(kernel: Kernel, name: str) -> str:
    runs, plans = kernel.stores.runs, kernel.stores.plans
    if name == "last":
        newest, _ = await kernel.services.runs.list(kernel.principal, 1, None)
        label = newest[0].label if newest else None
    elif name.startswith("run_"):
        found = await runs.find_run(name, kernel.principal)
        label = found.label if found is not None else None
    elif name.startswith("plan_"):
        plan = await plans.find_plan(name, kernel.principal)
        found = await runs.run_of_plan(plan.plan.label) if plan is not None else None
        label = found.label if found is not None else None
    elif name.startswith("p-"):
        found = await runs.run_of_plan(name)
        label = found.label if found is not None else None
    else:
        found = await runs.load_run(name)
        label = found.label if found is not None else None
    if label is None:
        raise NotFound("there is no run yet" if name == "last" else f"there is no run {name!r}", key="run")
    return label
