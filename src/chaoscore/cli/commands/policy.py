"""``chaoscore policy``: check a policy file, ask it a question, show what is in force."""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from chaoscore.cli.call import Call
from chaoscore.cli.exits import Exit
from chaoscore.cli.options import Subcommands, add_common, add_roots, examples

if TYPE_CHECKING:
    from chaoscore.bootstrap import Kernel
    from chaoscore.settings import Settings

EXAMPLES = examples(
    ("chaoscore policy check", "read the policy in force as a server would at its start; every fault at once"),
    ("chaoscore policy check draft.json", "the same for another file, changing nothing"),
    ("chaoscore policy explain http.request --url https://example.org/", "the verdict and every rule that spoke"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    commands = Subcommands(parser)
    checking = commands.add("check", "read a policy file strictly and list every fault", _check)
    checking.add_argument("file", nargs="?", metavar="FILE", help="the file (default: the policy in force)")
    explaining = commands.add("explain", "what policy says of one capability, and why", _explain)
    explaining.add_argument("capability", metavar="CAPABILITY")
    explaining.add_argument("--url", action="append", metavar="URL", help="an address it is asked to reach (repeat)")
    add_roots(explaining)
    showing = commands.add("show", "the policy in force", _show)
    placing = commands.add("path", "where the policy file is", _path)
    for command in (checking, explaining, showing, placing):
        add_common(command)


def _check(call: Call) -> int:
    from tempfile import TemporaryDirectory

    from chaoscore.cli.views.words import plain
    from chaoscore.domain.errors import ConfigurationInvalid, PolicyInvalid

    settings = call.settings()
    path = settings.policy_path if call.args.file is None else Path(call.cwd, call.args.file)
    if not path.is_file():
        first = call.args.file is None and not settings.data_dir.exists()
        raise ConfigurationInvalid(
            f"there is no policy file at {str(path)!r}" + ("; the first start makes one" if first else ""),
            variable="policy",
        )

    async def read(settings: Settings) -> tuple[tuple[str, ...], str]:
        async with call.kernel(settings) as kernel:
            problem = kernel.policy.problem()
            if problem is not None:
                raise PolicyInvalid(problem, file=str(path))
            return kernel.policy.warnings(), kernel.policy.policy().digest

    # A kernel of its own in an empty folder: the file is read as at a start, and nothing of the user's is touched.
    with TemporaryDirectory(prefix="chaoscore-check-") as scratch:
        warnings, digest = asyncio.run(read(replace(settings, data_dir=Path(scratch), policy_path=path)))
    for warning in warnings:
        call.terminal.warn(warning)
    call.terminal.show(plain(f"{path} is understood in full"))
    if call.terminal.as_json:
        call.terminal.answer({"ok": True, "file": str(path), "warnings": list(warnings), "digest": digest})
    return Exit.OK


def _explain(call: Call) -> int:
    async def work(kernel: Kernel) -> int:
        from chaoscore.cli.views.words import plain
        from chaoscore.domain.errors import NotFound
        from chaoscore.domain.policy.evaluate import Evaluator
        from chaoscore.domain.policy.explain import explain, explain_text
        from chaoscore.domain.policy.model import Question

        name: str = call.args.capability
        capability = kernel.services.registry.get(name)
        if capability is None:
            near = ", ".join(kernel.services.registry.nearest(name)) or "none like it"
            raise NotFound(f"there is no capability {name!r}; near names: {near}", key="capability")
        takes_url = any(sink.kind == "url" for sink in capability.sinks)
        urls: tuple[str | None, ...] = tuple(call.args.url or ()) or ((None,) if takes_url else ())
        question = Question(name, capability.builtin, urls if takes_url else (), capability.scope)
        problem = kernel.policy.problem()
        evaluator = Evaluator(kernel.policy.policy(), problem)
        call.terminal.show(*(plain(line) for line in explain_text(evaluator, question).split("\n")))
        if call.terminal.as_json:
            call.terminal.answer(explain(evaluator, question))
        return Exit.OK

    return call.run(work)


def _show(call: Call) -> int:
    async def work(kernel: Kernel) -> int:
        from chaoscore.app.kernel.inspect import policy_json
        from chaoscore.cli.views.words import one_line, plain, rows

        problem = kernel.policy.problem()
        policy = policy_json(kernel.policy.policy())
        call.terminal.show(plain(kernel.policy.path, "dim"))
        call.terminal.show(rows(("key", "value"), [(key, one_line(value, 400)) for key, value in policy.items()]))
        for text in (*((problem,) if problem else ()), *kernel.policy.warnings()):
            call.terminal.warn(text)
        if call.terminal.as_json:
            warnings = list(kernel.policy.warnings())
            call.terminal.answer(
                {"file": kernel.policy.path, "policy": policy, "problem": problem, "warnings": warnings}
            )
        return Exit.OK

    return call.run(work)


def _path(call: Call) -> int:
    path = call.settings().policy_path
    if call.terminal.as_json:
        call.terminal.answer({"path": str(path), "exists": path.exists()})
    else:
        call.terminal.write(f"{path}\n")
    return Exit.OK
