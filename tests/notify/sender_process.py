"""One life of a daemon's sending half, to be killed at any instant: it stores rounds and delivers them.

`live` runs in a process of its own: it goes on from what the last life left, as a daemon does.
"""

import itertools
import time
from multiprocessing.connection import Connection
from pathlib import Path

from tests.notify.values import message
from watchdogd.history.models import Record
from watchdogd.history.sql import packed
from watchdogd.history.store import Store
from watchdogd.home.layout import Home
from watchdogd.incidents.models import Incident, Silence
from watchdogd.notify.channel_state import Policy
from watchdogd.notify.channels.webhook import JsonWebhook
from watchdogd.notify.locks import Locks
from watchdogd.notify.message_outbox import Outbox
from watchdogd.notify.notification import Message, addressed

INCIDENTS = 3
POLICY = Policy(rates={"hook": None}, first=0.02, longest=0.05)


for form, value in ((Message, message()), (tuple[Silence, ...], ()), (tuple[Incident, ...], ())):
    packed(
        form, value
    )  # how each is written is found out once, by the process that all lives are forked from


def live(folder: str, url: str, rounds: int, begun: Connection, storm: int = 0) -> None:
    """`rounds` more rounds with a message each and one with a `storm` of them, then until all is delivered.

    Says so when it has begun.
    """
    begun.send_bytes(b"begun")
    home = Home(Path(folder))
    store = Store.open("sqlite:///history.db", home)
    locks = Locks(home)
    waiting, ended = store.waiting(), [each for each in store.notifications() if each.state != "waiting"]
    outbox = Outbox({"hook": JsonWebhook(url)}, POLICY, store.settle, locks=locks)
    outbox.add([*ended, *waiting])
    outbox.start()
    first = len(waiting) + len(ended)
    for number in itertools.islice(itertools.count(first), rounds):
        letter = addressed(message(number % INCIDENTS), "hook", time.time(), f"n{number}")
        store.record(Record(time.time(), notifications=(letter,)))
        outbox.add([letter])
    if storm:
        letters = [addressed(message(number), "hook", time.time(), f"n{number}") for number in range(storm)]
        store.record(Record(time.time(), notifications=tuple(letters)))
        outbox.add(letters)
    while outbox.waiting:
        time.sleep(0.002)
    outbox.stop(1.0)
    store.close()
