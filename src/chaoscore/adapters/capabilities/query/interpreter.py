"""JMESPath, evaluated within a budget.

``capability`` stands above it, the ``jmespath`` package below: its parser and its interpreter, with a charge on every
visit. JMESPath has no loops, but projections nest, arrays may contain one part many times over, and comparisons look at
all of it: without a budget a query of a hundred characters can run for years.
"""

from __future__ import annotations

from typing import Any

import jmespath
from jmespath import exceptions, visitor

from chaoscore.adapters.capabilities.query.budget import Budget
from chaoscore.adapters.capabilities.query.functions import QUERY_INVALID, BoundedFunctions
from chaoscore.domain.errors import NotPerformed
from chaoscore.domain.json import Json

_SHOWN_CHARS = 200


class _Interpreter(visitor.TreeInterpreter):  # type: ignore[misc]
    def __init__(self, budget: Budget) -> None:
        super().__init__(jmespath.Options(custom_functions=BoundedFunctions(budget)))
        self._budget = budget

    def visit(self, node: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        self._budget.spend()
        return super().visit(node, *args, **kwargs)

    def visit_comparator(self, node: dict[str, Any], value: Any) -> Any:
        left, right = (self.visit(child, value) for child in node["children"])
        self._budget.walk(left)
        self._budget.walk(right)
        literals = [{"type": "literal", "value": side, "children": []} for side in (left, right)]
        return super().visit_comparator({**node, "children": literals}, value)

    def visit_flatten(self, node: dict[str, Any], value: Any) -> Any:
        base = self.visit(node["children"][0], value)
        if isinstance(base, list):
            self._budget.items(sum(len(element) if isinstance(element, list) else 1 for element in base))
        literal = {"type": "literal", "value": base, "children": []}
        return super().visit_flatten({**node, "children": [literal]}, value)

    def visit_slice(self, node: dict[str, Any], value: Any) -> Any:
        if isinstance(value, list):
            self._budget.items(len(value))
        return super().visit_slice(node, value)


def evaluate(query: str, data: Json, steps: int) -> Json:
    """The result, which may share parts with ``data``. Raises ``NotPerformed`` for a query that is not one, that
    does not fit the data, or that costs more than ``steps``."""
    try:
        parsed = jmespath.compile(query).parsed
        result: Json = _Interpreter(Budget(steps)).visit(parsed, data)
    except RecursionError:
        raise NotPerformed("the query or the data is nested too deeply", code=QUERY_INVALID) from None
    except exceptions.ArityError as error:
        raise NotPerformed(_first_line(str(error)).lower(), code=QUERY_INVALID) from None
    except exceptions.ParseError as error:
        position = getattr(error, "lex_position", None)
        raise NotPerformed(
            f"the query is not JMESPath: {_first_line(error.msg)} at character {position}", code=QUERY_INVALID
        ) from None
    except exceptions.JMESPathError as error:
        raise NotPerformed(f"the query does not fit the data: {_about(error)}", code=QUERY_INVALID) from None
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        name = type(error).__name__
        raise NotPerformed(f"the query does not fit the data ({name})", code=QUERY_INVALID) from None
    return result


def _about(error: Exception) -> str:
    """The package's words without the values it quotes: they may be the content of a file."""
    if isinstance(error, exceptions.JMESPathTypeError):
        wanted = " or ".join(error.expected_types)
        return f"{error.function_name}() takes {wanted}, not {error.actual_type}"
    return _first_line(str(error))


def _first_line(text: str) -> str:
    return text.split("\n", 1)[0][:_SHOWN_CHARS]
