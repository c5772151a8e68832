"""What a model is told when it has to write a plan: instructions, the capabilities as the registry describes them,
examples. Data never stands here: ``chaoscore.app.planning``, above, sends it in a fence.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from chaoscore.domain.capability import Capability
from chaoscore.domain.fence import fence_rule
from chaoscore.domain.json import Json, JsonObject, is_array, is_object
from chaoscore.domain.limits import Limits
from chaoscore.domain.plan_schema import PLAN_SCHEMA, plan_schema

INSTRUCTIONS = """\
You write plans that another system checks and runs. Answer with one JSON object: {"steps": [...]}.
- Use only the capabilities listed below, by their exact names, with the arguments they take.
- Ids are s1, s2, ... A step uses only earlier steps.
- A value of an earlier step's output: {"$from": "s1", "path": "/body"} in place of the value, never inside text. The \
path is a JSON Pointer into that step's output.
- To repeat a step for each element of an array: "for_each": {"$from": "s1", "path": "/entries", "max": 100}; in its \
arguments {"$item": "/path"} is a value of the element. Its output is the array of results.
- Fewest steps that achieve the objective, nothing beyond it.
- "expect" are checks on the step's own output, by JSON Pointer into it: {"path": "/text", "op": "contains", "value": \
"x", "every": null}. Add one only for what the objective itself says about the result.
- null for what you leave out; after, expect, on_error and for_each are null in most steps.
- When these capabilities cannot achieve the objective, answer {"steps": []}.
The user's words are the JSON object after 'request'."""
AGAIN = "An earlier plan failed. 'previous_run' in the data tells how each step ended; find another way."

ALONE = "Answer with that JSON object and nothing else: no words around it, no tools."


def instructions_for(shown: Mapping[str, Capability], fence_id: str, again: bool) -> str:
    """What is the same for every goal comes first: servers reuse the beginning that two requests share."""
    listed = "\n".join(
        json.dumps(described(capability), ensure_ascii=False, separators=(",", ":")) for capability in shown.values()
    )
    parts = [INSTRUCTIONS, f"Capabilities:\n{listed}"]
    if shown.keys() >= {"fs.list", "fs.read_text"}:
        for objective, example in ((READING_ONE, _reading_one()), (READING_EACH, reading_each())):
            plan = json.dumps({"steps": [_in_full(step, shown) for step in example]}, separators=(",", ":"))
            parts.append(f"Example, for {objective!r}:\n{plan}")
    parts += [*([AGAIN] if again else []), fence_rule(fence_id)]
    return "\n".join(parts)


def instructions_in_words(shown: Mapping[str, Capability], fence_id: str) -> str:
    """The same for a model that cannot be given a schema: the form of the steps stands in the words."""
    schema = json.dumps(PLAN_SCHEMA, ensure_ascii=False, separators=(",", ":"))
    return f"{instructions_for(shown, fence_id, False)}\n{ALONE}\nJSON Schema of the array 'steps':\n{schema}"


def schema_for(shown: Mapping[str, Capability], limits: Limits) -> JsonObject:
    """The strict form, but for the pattern of pointers: the linter judges those, and says what was meant."""
    schema = plan_schema(shown, limits)
    parts = schema["$defs"]
    assert is_object(parts) and is_object(parts["pointer"])
    pointer = {key: value for key, value in parts["pointer"].items() if key != "pattern"}
    return {**schema, "$defs": {**parts, "pointer": pointer}}


READING_ONE = "read notes/plan.txt"
READING_EACH = "read every Markdown file under docs"


def _reading_one() -> list[JsonObject]:
    """One step: without it, small models copy the two of the other example for everything."""
    return [{"id": "s1", "capability": "fs.read_text", "arguments": {"path": "notes/plan.txt"}}]


def reading_each() -> list[JsonObject]:
    """The steps of the example that the plan's schema carries."""
    given = PLAN_SCHEMA["examples"]
    assert is_array(given) and is_array(given[0])
    return [step for step in given[0] if is_object(step)]


def _in_full(step: JsonObject, shown: Mapping[str, Capability]) -> JsonObject:
    """A step as a strict schema wants it: every key there, those of the arguments too."""
    takes = shown[str(step["capability"])].input_schema.get("properties")
    given = step["arguments"]
    assert is_object(given)
    keys = ("id", "capability", "arguments", "after", "why", "expect", "on_error", "for_each")
    arguments = {key: given.get(key) for key in (takes if is_object(takes) else given)}
    return {**{key: step.get(key) for key in keys}, "arguments": arguments}


def described(capability: Capability) -> dict[str, Json]:
    """A capability as whoever writes a plan sees it; every word of it comes from the registry."""
    return {
        "name": capability.name,
        "description": capability.description,
        "risk": capability.risk,
        "read_only": capability.annotations.read_only,
        "input_schema": capability.input_schema,
        "output_schema": capability.output_schema,
    }
