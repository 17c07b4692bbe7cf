"""All that a message says of a result."""

from watchdogd.plugin import Result


def text_of(result: Result) -> str:
    """The first line's fact, the facts below it, what to do, and the evidence, a line each."""
    return "\n".join([result.summary, *result.facts, *result.advice, result.details])
