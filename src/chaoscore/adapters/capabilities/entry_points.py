"""Capabilities of installed packages: the entry point group ``chaoscore.capabilities``.

Bootstrap stands above it; the installed distributions' metadata below. An entry point's name is its capability's name,
so that the policy decides by name before any code of the package is imported. What a package does not declare is taken
at its worst (``Capability``'s defaults), and it can never pass for a built-in one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points

from chaoscore.app.ports import Provided
from chaoscore.domain.capability import NAME, Capability
from chaoscore.domain.errors import ConfigurationInvalid

GROUP = "chaoscore.capabilities"
_RISKS = ("low", "medium", "high")
_REASON_CHARS_MAX = 200


def declared_names() -> tuple[str, ...]:
    """The names that installed packages declare, loaded or not; imports nothing of theirs. For health and ``policy
    check``: a name here that the policy does not allow exists and is not loaded."""
    return tuple(sorted({point.name for point in entry_points(group=GROUP)}))


def entry_point_capabilities(names_allowed: Callable[[str], bool], taken: Collection[str] = ()) -> tuple[Provided, ...]:
    """Those whose names the policy's ``allowedCapabilities`` allows, sorted by name; the others are not imported.

    ``taken`` are the names of the built-in capabilities. Raises ``ConfigurationInvalid`` naming the distribution: for a
    name that is taken or declared twice (nothing is imported then), and for a package that cannot be loaded or does not
    give what it declared.
    """
    by_name: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, _distribution(point))):
        if point.name in taken:
            raise _invalid(point, "the name belongs to a built-in capability; uninstall the package")
        if not names_allowed(point.name):
            continue
        other = by_name.get(point.name)
        if other is not None and (other.value, _distribution(other)) != (point.value, _distribution(point)):
            raise _invalid(point, f"{_distribution(other)!r} declares the same name; uninstall one of the two")
        by_name[point.name] = point
    return tuple(_load(point) for point in by_name.values())


def _load(point: EntryPoint) -> Provided:
    try:
        loaded = point.load()
        if not isinstance(loaded, Provided) and callable(loaded):
            loaded = loaded()
    except (Exception, SystemExit) as error:  # foreign code at import: whatever it raises, the operator is told whose
        reason = str(error).split("\n", 1)[0][:_REASON_CHARS_MAX]
        raise _invalid(point, f"it cannot be loaded: {type(error).__name__}: {reason}") from error
    if not isinstance(loaded, Provided):
        raise _invalid(point, f"{point.value!r} is {type(loaded).__name__}, not chaoscore.app.ports.Provided")
    fault = _fault(loaded, point.name)
    if fault is not None:
        raise _invalid(point, fault)
    return replace(loaded, capability=replace(loaded.capability, builtin=False))


def _fault(provided: Provided, name: str) -> str | None:
    """What keeps a declared capability from being registered; types are checked because nobody else has."""
    capability: object = provided.capability
    if not isinstance(capability, Capability):
        return f"its capability is {type(capability).__name__}, not chaoscore.domain.capability.Capability"
    if capability.name != name:
        return f"it provides {capability.name!r}; entry point and capability must have one name"
    if NAME.fullmatch(name) is None:
        return "the name must be lower-case words joined by dots, at least two, as in 'acme.translate'"
    if capability.risk not in _RISKS:
        return f"risk {capability.risk!r} is none of {', '.join(_RISKS)}"
    handler: object = provided.handler
    if not inspect.iscoroutinefunction(handler) and not inspect.iscoroutinefunction(type(handler).__call__):
        return "its handler is not an async function of (arguments, context)"
    for what, schema in (("input_schema", capability.input_schema), ("output_schema", capability.output_schema)):
        fault = _schema_fault(schema)
        if fault is not None:
            return f"its {what} {fault}"
    return None


def _schema_fault(schema: object) -> str | None:
    from jsonschema import Draft202012Validator, SchemaError

    if not isinstance(schema, dict) or schema.get("type") != "object":
        return "must be a JSON Schema of type object"
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return f"is not a JSON Schema: {error.message[:_REASON_CHARS_MAX]}"
    return None


def _distribution(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "an unnamed package"


def _invalid(point: EntryPoint, why: str) -> ConfigurationInvalid:
    return ConfigurationInvalid(
        f"capability {point.name!r} of the installed package {_distribution(point)!r}: {why}",
        capability=point.name,
        distribution=_distribution(point),
    )
