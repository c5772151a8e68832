"""Checking a plan before policy is asked: all faults at once, and what is known before anything runs (spec §2).

Planning stands above it; below are drafts (structure), shapes (what schemas say) and the registry's facts. Faults are
JSON Pointers into ``{"steps": […]}``, so that whoever wrote the plan, a person or a model, can mend it in one go.
Facts come from the plan's shape and the registry, never from a model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from chaoscore.domain.capability import Capability
from chaoscore.domain.draft import Draft, read_steps
from chaoscore.domain.errors import Fault, PlanInvalid
from chaoscore.domain.evaluation import Check
from chaoscore.domain.faults import Faults, near
from chaoscore.domain.json import Json, brief, is_array, is_object, pointer_join, pointer_tokens, size_bytes
from chaoscore.domain.limits import Limits
from chaoscore.domain.plan import ItemReference, Reference, Step, StepFacts
from chaoscore.domain.references import Malformed, scan
from chaoscore.domain.schema import NOT_KNOWN, schema_faults
from chaoscore.domain.shape import OPEN, NoSuchPlace, Shape, elements, find, keys, misfit, say_types, types

REFERENCES_MAX = 1_000
"""References of one step."""

_ONE_PER_ITEM = ", one element per item of for_each; begin with an index, as '/0'"


@dataclass(frozen=True, slots=True)
class LintReport:
    """``steps`` are those that could be read, ``facts`` what is known of each of them by step id."""

    faults: tuple[Fault, ...]
    facts: Mapping[str, StepFacts]
    steps: tuple[Step, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.faults

    def require(self) -> tuple[Step, ...]:
        """The steps. Raises ``PlanInvalid`` with every fault when there is one."""
        if self.faults:
            raise PlanInvalid(self.faults)
        return self.steps


def parse_steps(raw: Json, limits: Limits) -> tuple[tuple[Step, ...], tuple[Fault, ...]]:
    """The steps whose structure could be read, and every structural fault. Total: any JSON gives an answer."""
    faults = Faults()
    drafts = read_steps(raw, limits, faults)
    return _steps(drafts), tuple(faults)


def lint(steps: Sequence[Step], capabilities: Mapping[str, Capability], limits: Limits) -> LintReport:
    """Steps checked against the registry and against one another."""
    faults = Faults()
    if len(steps) > limits.steps_max:
        faults.add("/steps", f"{len(steps)} steps are more than the {limits.steps_max} allowed")
    drafts = [Draft.of(index, step) for index, step in enumerate(steps[: limits.steps_max])]
    facts = _Linter(drafts, capabilities, limits, faults).run()
    return LintReport(tuple(faults), facts, tuple(steps))


def check_steps(raw: Json, capabilities: Mapping[str, Capability], limits: Limits) -> LintReport:
    """``parse_steps`` and ``lint`` in one, with all faults of both. Total: any JSON gives an answer."""
    faults = Faults()
    drafts = read_steps(raw, limits, faults)
    facts = _Linter(drafts, capabilities, limits, faults).run()
    return LintReport(tuple(faults), facts, _steps(drafts))


def _steps(drafts: Iterable[Draft]) -> tuple[Step, ...]:
    return tuple(step for draft in drafts if (step := draft.step()) is not None)


@dataclass(slots=True)
class _Known:
    """What has been found out about a step by the time later ones look at it."""

    draft: Draft
    output: Shape
    facts: StepFacts = field(default_factory=StepFacts)
    sources: frozenset[str] = frozenset()
    untrusted: bool = True


class _Linter:
    def __init__(
        self, drafts: Sequence[Draft], capabilities: Mapping[str, Capability], limits: Limits, faults: Faults
    ) -> None:
        self.drafts = drafts
        self.capabilities = capabilities
        self.limits = limits
        self.faults = faults
        self.earlier: dict[str, _Known] = {}
        self.ids: dict[str, int] = {}
        for draft in drafts:
            if draft.id is not None:
                self.ids.setdefault(draft.id, draft.index)
        self.edges = {draft.index: _mentioned(draft) for draft in drafts}

    def run(self) -> dict[str, StepFacts]:
        for draft in self.drafts:
            known = self._step(draft)
            if draft.id is None:
                continue
            if draft.id in self.earlier:
                taken = self.earlier[draft.id].draft.at
                self.faults.add(
                    f"{draft.at}/id", f"{draft.id!r} is the id of {taken} already", "each id names one step"
                )
                continue
            self.earlier[draft.id] = known
        return {name: known.facts for name, known in self.earlier.items()}

    def _step(self, draft: Draft) -> _Known:
        capability = self._capability(draft)
        item = self._for_each(draft)
        for position, name in draft.after:
            self._source(name, draft, f"{draft.at}/after/{position}")
        used: dict[str, str] = {}
        if draft.arguments is not None:
            used = self._references(draft, capability, item)
            if capability is not None:
                self._literals(draft, capability)
        output = OPEN if capability is None else Shape.of(capability.output_schema)
        if draft.loops:
            output = output.array_of_this(or_null=draft.on_error == "continue")
        for position, check in draft.expect:
            self._expect(check, output, draft.loops, f"{draft.at}/expect/{position}")
        return self._know(draft, capability, output, used)

    # -- one step ----------------------------------------------------------------------------------------------

    def _capability(self, draft: Draft) -> Capability | None:
        if draft.capability is None:
            return None
        found = self.capabilities.get(draft.capability)
        if found is None:
            names = near(draft.capability, self.capabilities) or sorted(self.capabilities)[:20]
            said = f"there is no capability {brief(draft.capability)}"
            hint = f"did you mean {_or(names)}?" if names else "no capability is registered"
            self.faults.add(f"{draft.at}/capability", said, hint)
        return found

    def _for_each(self, draft: Draft) -> Shape | None:
        """The shape of the items; ``None`` when the step has no ``for_each``."""
        if not draft.loops:
            return None
        if draft.for_each is None:
            return OPEN
        reference, at = draft.for_each.source, f"{draft.at}/for_each"
        place = self._place(reference, draft, at, mark="$from")
        if place is None:
            return OPEN
        found = types(place)
        if "array" not in found:
            said = f"for_each needs an array, {reference.step}{reference.path} is {say_types(found)}"
            self.faults.add(f"{at}/path", said, _arrays(self.earlier[reference.step].output))
            return OPEN
        return elements(place)

    def _references(self, draft: Draft, capability: Capability | None, item: Shape | None) -> dict[str, str]:
        """Check every reference; which earlier step each argument's pointer takes its value from."""
        used: dict[str, str] = {}
        assert draft.arguments is not None
        for pointer, reference in scan(draft.arguments):
            if self.faults.full:
                break
            at = f"{draft.at}/arguments{pointer}"
            if len(used) >= REFERENCES_MAX:
                self.faults.add(at, f"a step refers at most {REFERENCES_MAX} times", "refer to an object as a whole")
                break
            if isinstance(reference, Malformed):
                self.faults.add(at + reference.at, reference.reason, reference.suggestion)
                continue
            if isinstance(reference, ItemReference):
                place = self._item_place(reference, item, at)
                if draft.for_each is not None:
                    used[pointer] = draft.for_each.source.step
            else:
                place = self._place(reference, draft, at, mark="$from")
                used[pointer] = reference.step
            if place is not None and capability is not None:
                self._fit(place, pointer, capability, at)
        return used

    def _item_place(self, reference: ItemReference, item: Shape | None, at: str) -> Shape | None:
        if item is None:
            self.faults.add(at, "$item stands in a step without for_each", 'add "for_each", or refer with "$from"')
            return None
        place = find(item, pointer_tokens(reference.path))
        if isinstance(place, NoSuchPlace):
            self.faults.add(f"{at}/$item", f"an item has no {reference.path!r}", _what_there_is("an item", place))
            return None
        return place

    def _place(self, reference: Reference, draft: Draft, at: str, mark: str) -> Shape | None:
        """What stands at a reference; ``None`` when it is at fault."""
        if not self._source(reference.step, draft, f"{at}/{mark}"):
            return None
        source = self.earlier[reference.step]
        place = find(source.output, pointer_tokens(reference.path))
        if isinstance(place, NoSuchPlace):
            hint = _what_there_is(f"{reference.step!r}", place)
            if source.draft.loops and not place.reached:
                hint += _ONE_PER_ITEM
            said = f"the output of {reference.step!r} has no {brief(reference.path)}"
            self.faults.add(f"{at}/path", said, hint)
            return None
        return place

    def _fit(self, place: Shape, pointer: str, capability: Capability, at: str) -> None:
        wanted = find(Shape.of(capability.input_schema), pointer_tokens(_as_received(pointer)))
        if isinstance(wanted, NoSuchPlace):
            return  # an unknown key, which the literals' check names
        problem = misfit(place, wanted)
        if problem is not None:
            self.faults.add(at, f"{capability.name}: {problem}")

    def _source(self, name: str, draft: Draft, at: str) -> bool:
        """Whether ``name`` is an earlier step; a fault when it is not."""
        if name in self.earlier and self.earlier[name].draft is not draft:
            return True
        later = self.ids.get(name)
        if later == draft.index:
            self.faults.add(at, f"{brief(name)} is this step itself", "a step can only use earlier steps")
        elif later is not None:
            circle = self._circle(draft.index, later)
            if circle:
                self.faults.add(at, f"these steps wait for each other: {circle}", "remove one of the references")
            else:
                hint = f"move it before {draft.id!r}" if draft.id else "move it before this step"
                self.faults.add(at, f"{brief(name)} comes later in the plan", hint)
        else:
            names = near(name, self.earlier) or list(self.earlier)[:20]
            hint = f"earlier steps: {', '.join(names)}" if names else "there is no earlier step"
            self.faults.add(at, f"there is no step {brief(name)}", hint)
        return False

    def _circle(self, start: int, later: int) -> str | None:
        """The way from ``later`` back to ``start``, as ids, when there is one."""
        came_from: dict[int, int] = {later: start}
        open_steps = [later]
        while open_steps:
            at = open_steps.pop()
            for name in self.edges.get(at, ()):
                index = self.ids.get(name)
                if index == start:
                    path = [start, at]
                    while path[-1] != later:
                        path.append(came_from[path[-1]])
                    names = [self.drafts[i].id or f"step {i}" for i in (start, *reversed(path[1:]), start)]
                    return " → ".join(names)
                if index is not None and index not in came_from:
                    came_from[index] = at
                    open_steps.append(index)
        return None

    def _literals(self, draft: Draft, capability: Capability) -> None:
        assert draft.arguments is not None
        at = f"{draft.at}/arguments"
        try:
            size = size_bytes(draft.arguments)
        except (TypeError, ValueError):
            size = 0  # what is not JSON has been named already
        if size > self.limits.argument_bytes_max:
            said = f"the arguments have {size} bytes of JSON, at most {self.limits.argument_bytes_max} are allowed"
            self.faults.add(at, said)
            return
        for fault in schema_faults(_with_unknowns(draft.arguments), capability.input_schema):
            self.faults.add(at + _as_written(fault.pointer), fault.message, fault.suggestion)

    def _expect(self, check: Check, output: Shape, looped: bool, at: str) -> None:
        place = find(output, pointer_tokens(check.path))
        if isinstance(place, NoSuchPlace):
            if check.op != "absent":
                said = f"the output has no {brief(check.path)}"
                hint = _what_there_is("it", place)
                if looped and not place.reached:
                    hint += _ONE_PER_ITEM
                self.faults.add(f"{at}/path", said, hint)
        elif check.every and "array" not in types(place):
            said = f"'every' needs an array, {brief(check.path)} is {say_types(types(place))}"
            self.faults.add(f"{at}/every", said)

    # -- where data comes from ---------------------------------------------------------------------------------

    def _know(self, draft: Draft, capability: Capability | None, output: Shape, used: Mapping[str, str]) -> _Known:
        looped = {draft.for_each.source.step} if draft.for_each is not None else set()
        named = {name for _, name in draft.after} | set(used.values()) | looped
        derives: dict[str, tuple[str, ...]] = {}
        untrusted: list[str] = []
        for written, name in used.items():
            pointer, source = _as_received(written), self.earlier.get(name)
            flows = {name} | (source.sources if source is not None else frozenset())
            derives[pointer] = tuple(sorted(flows, key=lambda step: self.ids.get(step, len(self.ids))))
            if source is None or source.untrusted:
                untrusted.append(pointer)
        sinks = [] if capability is None else [sink.argument for sink in capability.sinks]
        looped_sources = [self.earlier[name] for name in looped if name in self.earlier]
        carries = bool(untrusted) or any(source.untrusted for source in looped_sources)
        flowing = {step for steps in derives.values() for step in steps}
        for source in looped_sources:
            flowing |= {source.draft.id or ""} | source.sources
        facts = StepFacts(
            depends_on=frozenset(named),
            derives_from=derives,
            untrusted=tuple(untrusted),
            untrusted_sinks=tuple(pointer for pointer in untrusted if any(_touches(pointer, sink) for sink in sinks)),
            arguments_known=not used,
        )
        trusted_output = capability is not None and not capability.untrusted_output
        return _Known(draft, output, facts, frozenset(flowing), carries or not trusted_output)


def _mentioned(draft: Draft) -> tuple[str, ...]:
    """References ∪ ``after``."""
    names = [name for _, name in draft.after]
    if draft.for_each is not None:
        names.append(draft.for_each.source.step)
    if draft.arguments is not None:
        names.extend(found.step for _, found in scan(draft.arguments) if isinstance(found, Reference))
    return tuple(dict.fromkeys(names))


def _with_unknowns(value: Json) -> Json:
    """Arguments as their receiver sees them, with ``NOT_KNOWN`` in place of every reference."""
    if is_object(value):
        if any(key.startswith("$") and not key.startswith("$$") for key in value):
            return NOT_KNOWN
        return {key[1:] if key.startswith("$$") else key: _with_unknowns(member) for key, member in value.items()}
    return [_with_unknowns(element) for element in value] if is_array(value) else value


def _as_received(pointer: str) -> str:
    """A pointer into arguments as written, as one into what the capability gets."""
    return pointer.replace("/$$", "/$")


def _as_written(pointer: str) -> str:
    return pointer.replace("/$", "/$$")


def _touches(pointer: str, sink: str) -> bool:
    """Whether an argument is a sink, lies within one, or holds one."""
    return pointer == sink or pointer.startswith(sink + "/") or sink.startswith(pointer + "/")


def _what_there_is(who: str, place: NoSuchPlace) -> str:
    where = f" at {pointer_join(*place.reached)!r}" if place.reached else ""
    if place.known:
        shown = ", ".join(pointer_join(key) for key in place.known[:20])
        return f"{who} has{where} {shown}"
    return f"{who} is{where} {place.what}"


def _arrays(shape: Shape) -> str | None:
    places = {key: find(shape, [key]) for key in keys(shape)}
    names = [key for key, at in places.items() if not isinstance(at, NoSuchPlace) and "array" in types(at)]
    return f"arrays there: {', '.join(pointer_join(name) for name in names[:20])}" if names else None


def _or(names: Sequence[str]) -> str:
    return " or ".join(repr(name) for name in names)
