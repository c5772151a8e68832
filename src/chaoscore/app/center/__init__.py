"""What the Decision Center does, whatever draws it: one list of all that waits, one question in full, answers through
the one way in, and looking at runs, history, policy and memory.

``chaoscore.adapters.web`` stands above; approvals, runs and the interaction runtime below.
"""

from chaoscore.app.center.answering import Given, Outcome
from chaoscore.app.center.chain import ChainCheck
from chaoscore.app.center.changes import Changes
from chaoscore.app.center.folders import Folder
from chaoscore.app.center.inbox import InboxItem, InboxPage
from chaoscore.app.center.question import AskedView, OptionView, QuestionView
from chaoscore.app.center.service import Center, Parts
from chaoscore.app.center.timeline import RunView, StepLine

__all__ = [
    "AskedView",
    "Center",
    "ChainCheck",
    "Changes",
    "Folder",
    "Given",
    "InboxItem",
    "InboxPage",
    "OptionView",
    "Outcome",
    "Parts",
    "QuestionView",
    "RunView",
    "StepLine",
]
