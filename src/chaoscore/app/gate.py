"""The gate: the only module that may call a capability handler (law 1).

The run service stands above it; the policy and the handlers below. It works in two halves with a durable intent
between them: ``admit`` decides and returns a value with its reasons, ``perform`` takes an admission whose intent has
been recorded, asks the policy again at the moment of the effect, and runs the handler under its deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial

from chaoscore.app.capabilities import Registry
from chaoscore.app.ports import Clock, HandlerContext, Handlers, PolicySource
from chaoscore.domain.action import ActionError, Event, Grant, approval_digest
from chaoscore.domain.capability import Capability
from chaoscore.domain.errors import CapabilityError, ChaosError, NotPerformed
from chaoscore.domain.evaluation import apply_checks
from chaoscore.domain.json import Json, JsonObject, MissingPath, resolve_pointer, size_bytes
from chaoscore.domain.limits import Limits
from chaoscore.domain.policy.model import Question, Verdict
from chaoscore.domain.references import find_references
from chaoscore.domain.run import CHECK_FAILED, Propose
from chaoscore.domain.schema import schema_faults

Checks = Callable[[Json], ActionError | None]
CANCEL_SECONDS = 1.0
"""How long a handler that was cancelled for being late may take to end."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The run and the principal that an approval is bound to: the run's label and the principal's key."""

    run: str
    principal: str


@dataclass(frozen=True, slots=True)
class Admission:
    """What the gate decided about one action. ``grant`` is the approval it will use, where one was needed."""

    proposal: Propose
    verdict: Verdict
    digest: str
    grant: Grant | None = None

    @property
    def may_start(self) -> bool:
        return self.verdict.effect == "ALLOW" or (self.verdict.effect == "REQUIRE_APPROVAL" and self.grant is not None)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an effect ended: ``succeed``, ``fail`` (it did not happen, or repeating it does no harm), or ``lose``.

    ``late`` resolves when an effect that outlived its deadline ends after all; its result is evidence only. ``size`` is
    the output's in UTF-8 bytes of JSON text, 0 where there is none.
    """

    event: Event
    output: Json = None
    error: ActionError | None = None
    size: int = 0
    late: asyncio.Task[Json] | None = None


class _Effect:
    """A handler at work: how it ended is told once, when it ends or when its time is up, whichever comes first.

    One task and no other: each costs rounds of the event loop, and there is an effect in every step.
    """

    __slots__ = ("_error", "_judge", "_may_repeat", "_outcome", "_task", "_tell", "_timer", "_work")

    def __init__(
        self,
        work: Awaitable[Json],
        outcome: asyncio.Future[Outcome],
        seconds: float,
        may_repeat: bool,
        judge: Callable[[Json, BaseException | None], Outcome],
        tell: Callable[[], None] | None,
    ) -> None:
        loop = outcome.get_loop()
        self._work = work
        self._outcome = outcome
        self._may_repeat = may_repeat
        self._judge = judge
        self._tell = tell
        self._error: ActionError | None = None
        self._timer = loop.call_later(seconds, self._overdue, seconds)
        self._task = loop.create_task(self._run())
        self._task.add_done_callback(self._ended)

    async def _run(self) -> Json:
        try:
            output = await self._work
        except GeneratorExit:  # the loop has ended, and with it everybody who could be told
            raise
        except BaseException as error:
            self._settle(None, error)
            raise
        self._settle(output, None)
        return output

    def _settle(self, output: Json, error: BaseException | None) -> None:
        self._timer.cancel()
        if self._outcome.done():
            return
        try:
            outcome = self._judge(output, error) if self._error is None else Outcome("fail", error=self._error)
        except BaseException as fault:  # raised here it would reach nobody, and the run would wait for ever
            self._outcome.set_exception(fault)
        else:
            self._outcome.set_result(outcome)
        if self._tell is not None:
            self._tell()

    def _ended(self, task: asyncio.Task[Json]) -> None:
        if task.cancelled():
            if asyncio.iscoroutine(self._work):
                self._work.close()  # cancelled before it began
            self._settle(None, asyncio.CancelledError())
        else:
            task.exception()  # told already; whoever keeps a late result looks at it as well

    def _overdue(self, seconds: float) -> None:
        error = ActionError("TIMED_OUT", f"no result within {seconds:g} s")
        if self._may_repeat:
            self._error = error
            self._timer = self._task.get_loop().call_later(CANCEL_SECONDS, self._settle, None, None)
            self._task.cancel()
        elif not self._outcome.done():
            self._outcome.set_result(Outcome("lose", error=error, late=self._task))
            if self._tell is not None:
                self._tell()


class Gate:
    """One per process. Holds the handlers; nobody else does."""

    def __init__(
        self, registry: Registry, handlers: Handlers, policy: PolicySource, clock: Clock, limits: Limits
    ) -> None:
        self._registry = registry
        self.__handlers = handlers
        self._policy = policy
        self._clock = clock
        self._limits = limits

    # -- deciding --------------------------------------------------------------------------------------------

    def judge(self, capability: str, arguments: JsonObject, *, written: bool = False) -> Verdict:
        """The policy's verdict on arguments. ``written`` are a plan's own: a reference in them is not known yet. All
        others are resolved: what looks like a reference there was delivered by a step, and is data (law 8)."""
        known = self._registry.get(capability)
        if known is None:
            return Verdict("DENY", "unknown-capability", (f"no capability is named {capability!r}",))
        return self._policy.verdict(question(known, arguments, written=written))

    def admit(self, subject: Subject, proposal: Propose, grants: Iterable[Grant]) -> Admission:
        """Verdict, digest and the grant that fits, if one does. Decides; changes nothing."""
        verdict = self.judge(proposal.step.capability, proposal.arguments)
        digest = self.digest(subject, proposal, verdict)
        grant: Grant | None = None
        if verdict.effect == "REQUIRE_APPROVAL":
            now = self._clock.now()
            grant = next((g for g in grants if g.fits(digest, now)), None)
        return Admission(proposal, verdict, digest, grant)

    def digest(self, subject: Subject, proposal: Propose, verdict: Verdict) -> str:
        name = proposal.step.capability
        return approval_digest(
            run=subject.run,
            step=proposal.step.id,
            item=proposal.item,
            attempt=proposal.attempt,
            principal=subject.principal,
            capability=name,
            definition=self._registry.definition_digest(name) if name in self._registry else "",
            arguments=proposal.arguments,
            verdict=verdict,
        )

    def fault(self, proposal: Propose) -> ActionError | None:
        """What is wrong with resolved arguments, before anything about them is decided."""
        capability = self._registry.get(proposal.step.capability)
        if capability is None:
            return ActionError("UNKNOWN_CAPABILITY", f"no capability is named {proposal.step.capability!r}")
        if size_bytes(proposal.arguments) > self._limits.argument_bytes_max:
            return ActionError(
                "LIMIT_EXCEEDED", f"the resolved arguments exceed {self._limits.argument_bytes_max} bytes"
            )
        faults = schema_faults(proposal.arguments, capability.input_schema)
        if faults:
            return ActionError("ARGUMENTS_INVALID", f"{faults[0].pointer or 'arguments'}: {faults[0].message}")
        return None

    # -- acting ----------------------------------------------------------------------------------------------

    def perform(
        self, subject: Subject, admission: Admission, checks: Checks, tell: Callable[[], None] | None = None
    ) -> asyncio.Future[Outcome]:
        """Begin the effect of an action whose intent is durable; how it ends is the future's result.

        The verdict is asked again first: if it changed since the approval or the intent, the effect does not happen.
        Giving up the future does not stop the effect. ``tell`` is called as soon as the future is done, a round of the
        event loop before its own callbacks.
        """
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        try:
            refused = self._begin(subject, admission, checks, outcome, tell)
        except Exception as error:  # it is this effect's alone: others of the same turn still begin
            outcome.set_exception(error)
        else:
            if refused is not None:
                outcome.set_result(Outcome("fail", error=refused))
        if tell is not None and outcome.done():
            tell()
        return outcome

    def _begin(
        self,
        subject: Subject,
        admission: Admission,
        checks: Checks,
        outcome: asyncio.Future[Outcome],
        tell: Callable[[], None] | None,
    ) -> ActionError | None:
        proposal = admission.proposal
        capability = self._registry[proposal.step.capability]
        now = self.judge(capability.name, proposal.arguments)
        if not admission.may_start or self.digest(subject, proposal, now) != admission.digest:
            return ActionError(
                "POLICY_CHANGED", f"the verdict is now {now.effect} by {now.rule}; the effect did not happen"
            )
        seconds = min(capability.timeout_seconds or self._limits.step_seconds, self._limits.step_seconds)
        context = HandlerContext(
            authorize=self._authorizer(capability, admission),
            idempotency_key=admission.digest,
            deadline_seconds=seconds,
            private_hosts=self._policy.policy().http_allow_private,
        )
        work = self.__handlers[capability.name](proposal.arguments, context)
        judge = partial(self._outcome, capability, checks)
        _Effect(work, outcome, seconds, capability.annotations.may_repeat, judge, tell)
        return None

    def _outcome(self, capability: Capability, checks: Checks, output: Json, error: BaseException | None) -> Outcome:
        event: Event = "fail" if capability.annotations.may_repeat else "lose"
        if isinstance(error, asyncio.CancelledError):
            return Outcome(event, error=ActionError("CANCELLED", "the handler was cancelled"))
        if error is not None:
            return _failure(error, event)
        try:
            size = size_bytes(output)
        except (TypeError, ValueError):
            return Outcome(event, error=ActionError("OUTPUT_INVALID", "the handler's output is not JSON"))
        if size > self._limits.output_bytes_max:
            most = self._limits.output_bytes_max
            return Outcome(
                event, error=ActionError("OUTPUT_TOO_LARGE", f"the output has {size} bytes, at most {most} are kept")
            )
        broken = checks(output)
        if broken is not None:
            return Outcome("fail", output, broken, size)
        return Outcome("succeed", output, size=size)

    def _authorizer(self, capability: Capability, admission: Admission) -> Callable[[JsonObject], None]:
        def authorize(arguments: JsonObject) -> None:
            verdict = self.judge(capability.name, arguments)
            if verdict.effect == "ALLOW":
                return
            if verdict.effect == "REQUIRE_APPROVAL" and _covered(capability, admission.proposal.arguments, arguments):
                return
            raise NotPerformed(
                f"policy answers {verdict.effect} ({verdict.rule}) for {_sinks(capability, arguments)}; "
                "plan it as a step of its own",
                code="DENIED_BY_POLICY" if verdict.effect == "DENY" else "NEEDS_APPROVAL",
            )

        return authorize


def question(capability: Capability, arguments: JsonObject, *, written: bool = False) -> Question:
    """What is asked of the policy about these arguments; in a plan as ``written`` a sink whose value is a reference is
    ``None``."""
    open_pointers = [pointer for pointer, _ in find_references(arguments)] if written else []
    urls: list[str | None] = []
    for sink in capability.sinks:
        if sink.kind != "url":
            continue
        if any(sink.argument == p or sink.argument.startswith(p + "/") for p in open_pointers):
            urls.append(None)
            continue
        try:
            value = resolve_pointer(arguments, sink.argument)
        except MissingPath:
            continue
        urls.append(value if isinstance(value, str) else "")
    return Question(capability.name, capability.builtin, tuple(urls), capability.scope)


def default_checks(capability: Capability, overridden: Iterable[str]) -> Checks:
    """The capability's own expectations on one result, apart from the paths that the plan checks itself."""
    if not capability.default_expect:
        return _nothing_expected
    named = set(overridden)
    own = tuple(check for check in capability.default_expect if check.path not in named)

    def check(output: Json) -> ActionError | None:
        broken = next((result for result in apply_checks(own, output) if not result.passed), None)
        return None if broken is None else ActionError(CHECK_FAILED, broken.reason)

    return check


def _nothing_expected(output: Json) -> None:
    return None


def _failure(exception: BaseException, event: Event) -> Outcome:
    if isinstance(exception, NotPerformed):
        return Outcome("fail", error=ActionError(exception.code, exception.message))
    if isinstance(exception, CapabilityError | ChaosError):
        return Outcome(event, error=ActionError(exception.code, exception.message))
    name = type(exception).__name__
    return Outcome(
        event, error=ActionError("CAPABILITY_FAILED", f"the handler failed with {name}; the server's log tells more")
    )


def _origin(url: Json) -> tuple[str, str] | None:
    if not isinstance(url, str):
        return None
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return (parts.scheme.lower(), parts.netloc.lower())


def _covered(capability: Capability, approved: JsonObject, asked: JsonObject) -> bool:
    """An approval of one URL covers hops within its own origin, nothing else."""
    for sink in capability.sinks:
        try:
            before, after = resolve_pointer(approved, sink.argument), resolve_pointer(asked, sink.argument)
        except MissingPath:
            return False
        if sink.kind == "url" and _origin(before) is not None and _origin(before) == _origin(after):
            continue
        if before != after:
            return False
    return True


def _sinks(capability: Capability, arguments: JsonObject) -> str:
    found = []
    for sink in capability.sinks:
        try:
            found.append(f"{sink.argument}={resolve_pointer(arguments, sink.argument)!r}"[:200])
        except MissingPath:
            continue
    return ", ".join(found) or capability.name
