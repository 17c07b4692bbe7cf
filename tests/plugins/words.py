"""All that a message says of a result."""

from watchdogd.plugin import Result


def text_of(result: Result) -> str:
    """The first line's fact, the facts below it, what to do, and the evidence, a line each."""
    advice = [line for each in result.advice for line in each.lines]
    return "\n".join([result.summary, *result.facts, *advice, result.details])


def commands_of(result: Result) -> list[str]:
    """The commands that it gives to type."""
    return [each.command for each in result.advice if each.command]
