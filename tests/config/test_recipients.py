"""Mail to several whose mailboxes refuse now and then: each hears of each check in order."""

import random
from collections.abc import Sequence

import pytest

from tests.notify.test_outbox import PASSING, Desk
from tests.notify.values import Script, letter
from watchdogd.errors import DeliveryError, PartlyDeliveredError
from watchdogd.notify.notification import Item, Message, Notification

PEOPLE = ("alice", "bob")


class Mailboxes(Script):
    """A server of two mailboxes, each of which refuses now and then while `odd`, as it does itself."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.odd = True
        self.got: dict[str, list[Message]] = {person: [] for person in PEOPLE}
        self._chance = chance

    def send(self, notification: Notification, _roots: Sequence[Notification], /) -> str:
        """To all who lack it and do not refuse."""
        if self._refuses(0.15):
            raise PASSING
        have = set(notification.receipt.split())
        took = {person for person in PEOPLE if person not in have and not self._refuses(0.4)}
        for person in took:
            self.got[person].append(notification.message)
        if not have | took:
            raise DeliveryError("nobody takes it")
        receipt = " ".join(sorted(have | took))
        if have | took != set(PEOPLE):
            raise PartlyDeliveredError("452 mailbox full", receipt=receipt)
        return receipt

    def _refuses(self, share: float) -> bool:
        return self.odd and self._chance.random() < share


def _turns(chance: random.Random, burning: dict[str, int], number: int) -> list[Item]:
    """Some checks turn: to bad, with a new incident, or to good."""
    items = []
    for check in chance.sample("abcd", chance.choice([1, 1, 1, 2, 3])):
        if check in burning:
            items.append(Item("RESOLVED", check, "as it is", incident=burning.pop(check)))
        else:
            number += 1
            burning[check] = number
            items.append(Item("CRITICAL", check, "as it is", incident=number))
    return items


def _read(messages: Sequence[Message]) -> dict[str, str]:
    """What one believes of each check at last; no older word may have come after a newer one."""
    newest: dict[str, tuple[int, bool]] = {}
    for message in messages:
        for item in sorted(message.items, key=lambda item: (item.incident or 0, item.ended)):
            word = (item.incident or 0, item.ended)
            assert word >= newest.get(item.check, word)
            newest[item.check] = word
    return {check: "RESOLVED" if ended else "CRITICAL" for check, (_, ended) in newest.items()}


@pytest.mark.parametrize("seed", range(40))
def test_the_last_word_to_each_is_the_truth(seed: int) -> None:
    chance = random.Random(seed)
    mail = Mailboxes(chance)
    desk = Desk({"mail": mail})
    burning: dict[str, int] = {}
    truth: dict[str, str] = {}
    number = 0
    for step in range(40):
        items = _turns(chance, burning, number)
        number = max(number, *(item.incident or 0 for item in items))
        truth |= {item.check: item.status for item in items}
        status = min(item.status for item in items)
        told = {"status": status, "opens": status == "CRITICAL", "items": tuple(items)}
        incidents = tuple(item.incident for item in items)
        desk.add(letter(incidents[0] or 0, "mail", f"n{step}", desk.now, incidents=incidents, **told))
        desk.work(chance.choice([0, 1, 5, 60, 400]))
    mail.odd = False
    desk.work(4000)
    assert desk.outbox.waiting == 0
    assert [_read(mail.got[person]) for person in PEOPLE] == [truth, truth]
