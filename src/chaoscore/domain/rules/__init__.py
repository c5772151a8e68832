"""Planning without a model: goals of one clause whose every word is understood, in English and Chinese. Pure.

``words`` splits a goal into tokens and says what kind each is; ``clauses`` lists the sentences that are understood, as
patterns over those kinds, and the steps each means. Whatever is not explained (a negation, a condition, a second
clause, a word nobody listed) makes the rules abstain and name it: a wrong plan is worse than none. spec §7.
"""

from chaoscore.domain.rules.plan import Abstained, RulesPlan, plan_by_rules

__all__ = ["Abstained", "RulesPlan", "plan_by_rules"]
