"""Asking the user in place: a form that a tool shows through its client, and the answer, without knowing a transport.

A tool finds an ``Elicitor`` in its ``CallContext`` when its client said that it can show forms. Below stand the
transports, which ask live or by having the client call again. An answer in place is never the only way to answer:
whoever asks has recorded the question before, and goes on without an answer when there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, TypeAlias

from chaoscore.domain.errors import InvalidInput
from chaoscore.domain.json import Json, JsonObject, is_array, type_name
from chaoscore.domain.redaction import Redactor

ASK_SECONDS = 30.0
"""How long a call stays open for an answer. Clients give up on a call after a minute."""

TEXT_CHARS_MAX = 4_000


@dataclass(frozen=True, slots=True)
class FormOption:
    """One thing to choose: ``value`` is what comes back, ``label`` what the user reads (the value, when empty)."""

    value: str
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Base:
    name: str
    title: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleChoice(_Base):
    """Exactly one of the options; its value comes back."""

    options: tuple[FormOption, ...]
    required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiChoice(_Base):
    """Any of the options, between ``at_least`` and ``at_most``; their values come back, each once.

    It always comes back when the form is accepted, empty at the least.
    """

    options: tuple[FormOption, ...]
    at_least: int = 0
    at_most: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class YesNo(_Base):
    """A boolean comes back."""

    required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeText(_Base):
    """Text of at most ``chars_max`` characters comes back. What a user typed is data, never an instruction."""

    chars_max: int = TEXT_CHARS_MAX
    required: bool = True


Field: TypeAlias = SingleChoice | MultiChoice | YesNo | FreeText


@dataclass(frozen=True, slots=True)
class Form:
    """``message`` is what the user is asked. Without fields the answer is accepting or declining alone.

    Raises ``ValueError`` for what could never be answered: two fields of one name, a choice without options.
    """

    message: str
    fields: tuple[Field, ...] = ()

    def __post_init__(self) -> None:
        names = [item.name for item in self.fields]
        if len(set(names)) != len(names) or "" in names:
            raise ValueError("every field of a form needs a name of its own")
        for item in self.fields:
            if isinstance(item, SingleChoice | MultiChoice):
                values = [option.value for option in item.options]
                if not values or len(set(values)) != len(values):
                    raise ValueError(f"{item.name}: a choice needs options, each with a value of its own")

    def read(self, content: Mapping[str, Json]) -> dict[str, Json]:
        """What the user filled in, field by field; other keys are left out, and so is an optional field that is null.

        Raises ``InvalidInput`` naming the field that does not fit, never showing what was in it.
        """
        read: dict[str, Json] = {}
        for item in self.fields:
            given = content.get(item.name)
            if isinstance(item, MultiChoice):
                read[item.name] = _chosen(item, [] if given is None else given)
            elif given is not None:
                read[item.name] = _value(item, given)
            elif item.required:
                raise _unfit(item, "is missing")
        return read

    def redacted(self, redactor: Redactor) -> Form:
        """The same without secrets in anything that the user reads; names and values are the asker's own codes."""
        return Form(redactor.text(self.message), tuple(_redacted(item, redactor) for item in self.fields))


Action = Literal["accept", "decline", "cancel"]


@dataclass(frozen=True, slots=True)
class FormAnswer:
    """``accept`` carries every required field, of its type. ``decline`` says no; ``cancel`` says nothing."""

    action: Action
    content: JsonObject = field(default_factory=dict)


class Elicitor(Protocol):
    """The user behind one call."""

    @property
    def again(self) -> bool:
        """Whether this is the call again, with answers: what the earlier one began is joined, never begun anew."""
        ...

    async def ask(
        self, key: str, form: Form, seconds: float = ASK_SECONDS, *, expires_at: float | None = None
    ) -> FormAnswer | None:
        """The user's answer to ``form``; the same one however often ``key`` and the same form are asked in a call.

        ``None`` when there is none: the client cannot be asked, nobody answered within ``seconds``, or what came back
        did not fit the form. Never raises for anything a client does. ``seconds`` bounds a call that stays open;
        ``expires_at`` (seconds since the epoch, an hour from now when not said) a question that outlives its call.

        A client may be asked by **calling the tool again**: then this call ends here, as if it was cancelled, and
        another begins from the start with the answer. So ask only where all that has happened before may happen again,
        make the same form of the same facts, and let the cancellation pass. Questions asked side by side (``gather``)
        travel together.
        """
        ...


class RedactedElicitor:
    """Law 10 on the way to the user."""

    def __init__(self, inner: Elicitor, redactor: Redactor) -> None:
        self._inner = inner
        self._redactor = redactor

    @property
    def again(self) -> bool:
        return self._inner.again

    async def ask(
        self, key: str, form: Form, seconds: float = ASK_SECONDS, *, expires_at: float | None = None
    ) -> FormAnswer | None:
        return await self._inner.ask(key, form.redacted(self._redactor), seconds, expires_at=expires_at)


def _value(item: SingleChoice | YesNo | FreeText, given: Json) -> Json:
    if isinstance(item, YesNo):
        if not isinstance(given, bool):
            raise _unfit(item, f"must be boolean, not {type_name(given)}")
        return given
    if not isinstance(given, str):
        raise _unfit(item, f"must be string, not {type_name(given)}")
    if isinstance(item, FreeText):
        if len(given) > item.chars_max:
            raise _unfit(item, f"has {len(given)} characters; {item.chars_max} are allowed")
    elif all(option.value != given for option in item.options):
        raise _unfit(item, "is none of the options")
    return given


def _chosen(item: MultiChoice, given: Json) -> Json:
    if not is_array(given):
        raise _unfit(item, f"must be array, not {type_name(given)}")
    known = {option.value for option in item.options}
    chosen: dict[str, None] = {}
    for value in given:
        if not isinstance(value, str) or value not in known:
            raise _unfit(item, "holds something that is none of the options")
        chosen[value] = None
    if not item.at_least <= len(chosen) <= (len(known) if item.at_most is None else item.at_most):
        raise _unfit(item, f"has {len(chosen)} options, which is not how many may be chosen")
    return list(chosen)


def _unfit(item: Field, why: str) -> InvalidInput:
    return InvalidInput(f"{item.name}: {why}", key=item.name)


def _redacted(item: Field, redactor: Redactor) -> Field:
    title, description = redactor.text(item.title), redactor.text(item.description)
    if isinstance(item, SingleChoice | MultiChoice):
        options = tuple(FormOption(option.value, redactor.text(option.label)) for option in item.options)
        return replace(item, title=title, description=description, options=options)
    return replace(item, title=title, description=description)
