"""The plan through every order of what can happen to up to three messages on two channels: a model check.

A world is what is stored, what the daemon has in memory, what the locks' files acknowledge, and what came to
the servers. From each world every next event is tried: a message is stored, a try goes well, is refused
(once, or for good) or taken though no answer comes back, what is known is marked in the store, the daemon is
killed (also between a delivery and its acknowledgement), routes are edited, a relay takes a channel over,
time passes, a day of it too; one hook may be gone for ever. In every world the promise is kept: none comes
twice but for a delivery of which nobody could say so, no end before its beginning or after a newer one of the
same subject, none waits where another channel works, none is given up unsaid; and in every world in which
nothing is left to do, nothing was lost.

Worlds that differ only in the order of what happened on different channels are one: no channel's plan, and
nothing that is promised, depends on that.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import pytest

from tests.needs import QUICK
from tests.notify.values import NOON, letter
from watchdogd.errors import DeliveryError
from watchdogd.notify.channel_state import ChannelState, Health, Policy
from watchdogd.notify.delivery_plan import Delivered, DeliveryPlan, Send, Situation
from watchdogd.notify.notification import Item, Message, Notification, addressed
from watchdogd.notify.reports import ABOUT

CHANNELS = ("slack", "mail")
POLICY = Policy(expire=1e6, fallback=CHANNELS, first=2, longest=8, pause=20, patience=100)
RELAYS = replace(POLICY, fallback=(), tell=None, expire=math.inf)
LONGEST = 10 * POLICY.patience
"""Seconds in which all is told, however often a channel is left in peace."""
REFUSED = DeliveryError("answered 500")
REVOKED = DeliveryError("answered 404", permanent=True)


ROUTE = ""
"""Where the route leads just now; all else goes to the channel that is named."""
Step = dict[str, Message]
"""What one round tells: a message a channel."""


def _item(at: int, number: int, word: str, subject: str = "a", *, quiet: bool = False) -> Item:
    return Item(word, f"check-{subject}", "as it is", incident=number, at=NOON + at, quiet=quiet)


def _said(*items: Item, urgent: bool = False) -> Message:
    first = items[0]
    numbers = tuple(sorted({item.incident or 0 for item in items}))
    opens = first.status != "RESOLVED"
    return letter(
        first.incident or 0, status=first.status, opens=opens, items=items, incidents=numbers, urgent=urgent
    ).message


BURNS = _said(_item(1, 1, "CRITICAL"))
OVER = _said(_item(3, 1, "RESOLVED"))
STORIES: dict[str, tuple[Step, ...]] = {
    "it burns, is over, and burns again": (
        {ROUTE: BURNS},
        {ROUTE: OVER},
        {ROUTE: _said(_item(4, 2, "CRITICAL"))},
    ),
    "two things burn, and one is over": (
        {ROUTE: BURNS},
        {ROUTE: _said(_item(2, 2, "WARNING", "b"))},
        {ROUTE: OVER},
    ),
    "it is reminded of and escalates, and is over as another begins": (
        {ROUTE: BURNS},
        {ROUTE: _said(_item(2, 1, "CRITICAL")), "mail": _said(_item(2, 1, "CRITICAL"), urgent=True)},
        {ROUTE: _said(_item(3, 2, "WARNING", "b"), _item(3, 1, "RESOLVED")), "mail": OVER},
    ),
    "it escalates, and what stops it ends it: quietly, but where it stands until it is over": (
        {ROUTE: BURNS},
        {"mail": _said(_item(2, 1, "CRITICAL"), urgent=True)},
        {
            ROUTE: _said(_item(3, 2, "WARNING", "b")),
            "mail": _said(_item(3, 2, "WARNING", "b"), _item(3, 1, "RESOLVED", quiet=True)),
        },
    ),
}
BUDGETS = {
    "a kill before what was sent is marked": {"crash": 1, "refused": 1},
    "a kill before what was sent is acknowledged": {"lost": 1, "refused": 1},
    "a revoked hook and a kill": {"revoked": 1, "lost": 1},
    "a revoked hook and a full disk": {"revoked": 1, "refused": 1, "full": 1},
    "a revoked hook and an edit of the routes": {"revoked": 1, "route": 1},
    "an edit of the routes and a kill": {"route": 1, "lost": 1},
    "a channel that is removed and a kill": {"removal": 1, "crash": 1},
    "a relay and a kill": {"relay": 2, "lost": 1},
    "a hook that is gone for ever, and a kill": {"gone": 1, "lost": 1},
    "a day without a way out and a kill": {"day": 1, "refused": 1, "crash": 1},
}


@dataclass(frozen=True)
class World:
    """All that there is. `rows` and `ended` are the daemon's memory, `unsaved` what of it is not stored;
    `left` how often each event may still happen, `unsaid` how many deliveries nobody could acknowledge.

    `acknowledged` is what the locks' files say, `noted` what of that this life of the daemon knows: it goes
    with the lock, once all is stored."""

    story: tuple[Step, ...]
    left: tuple[tuple[str, int], ...]
    stored: tuple[Notification, ...] = ()
    rows: tuple[Notification, ...] = ()
    ended: tuple[Notification, ...] = ()
    unsaved: tuple[Notification, ...] = ()
    health: tuple[tuple[str, Health], ...] = ()
    acknowledged: tuple[Delivered, ...] = ()
    noted: tuple[Delivered, ...] = ()
    came: tuple[tuple[str, str, tuple[Item, ...]], ...] = ()
    told: int = 0
    route: str = "slack"
    names: tuple[str, ...] = CHANNELS
    now: float = NOON
    unsaid: int = 0

    def may(self, event: str) -> bool:
        return dict(self.left).get(event, 0) > 0

    def spent(self, event: str) -> bool:
        return dict(self.left).get(event) == 0

    def after(self, event: str) -> "World":
        left = tuple((name, count - (name == event)) for name, count in self.left)
        return self.but(left=left, unsaid=self.unsaid + (event == "lost"))

    def but(self, **changes: object) -> "World":
        """As `replace`, which costs a third of the search."""
        other = object.__new__(World)
        other.__dict__.update(self.__dict__ | changes)
        other.__dict__.pop("key", None)
        if not changes.keys().isdisjoint(("rows", "ended", "health", "noted")):
            other.__dict__.pop("channels", None)
        return other

    @cached_property
    def key(self) -> object:
        """What tells it from other worlds, as far as the future goes: channel by channel."""
        return (
            *(self.left, self.told, self.route, self.names, self.now, self.unsaid),
            tuple(self._key_of(name) for name in CHANNELS),
            tuple(
                (name, each.since, each.rests_until, each.permanent, each.reported, each.failing)
                for name, each in self.health
            ),
        )

    def _key_of(self, name: str) -> object:
        suffix = f"@{name}"
        return (
            tuple((key, items) for channel, key, items in self.came if channel == name),
            frozenset(each.key for each in self.acknowledged if each.channel == name),
            frozenset(each.key for each in self.noted if each.channel == name),
            tuple(
                (row.key, row.state, row.attempts, row.next_try, row.created_at)
                for row in self.stored
                if row.channel == name
            ),
            tuple((row.key, row.attempts, row.next_try) for row in self.rows if row.channel == name),
            tuple((row.key, row.state) for row in self.ended if row.channel == name),
            frozenset((row.key, row.state) for row in self.unsaved if row.key.endswith(suffix)),
        )

    @property
    def is_over(self) -> bool:
        """Whether all was told, and nothing waits any more; else something can still happen."""
        return self.told == len(self.story) and not self.rows

    # ------------------------------------------------------------ the daemon's memory

    @cached_property
    def channels(self) -> dict[str, ChannelState]:
        health = dict(self.health)
        waiting = {row.key for row in self.rows}
        return {
            name: _channel(
                name,
                health.get(name, Health()),
                tuple(row for row in self.rows if row.channel == name),
                tuple(row for row in self.ended if row.channel == name),
                tuple(each.key for each in self.noted if each.channel == name and each.key not in waiting),
            )
            for name in CHANNELS
        }

    def configured(self) -> dict[str, ChannelState]:
        return {name: channel for name, channel in self.channels.items() if name in self.names}

    def situation(self, name: str) -> Situation:
        return Situation(self.configured(), name, self.now, POLICY)

    def write(self, done: DeliveryPlan, name: str) -> "World":
        if not done.rows and done.health == dict(self.health).get(name, Health()):
            return self
        rows = {row.key: row for row in self.rows}
        unsaved = {row.key: row for row in self.unsaved}
        ended = self.ended
        self._check_said(done, name)
        for row in done.rows:
            if row.message.thread.startswith(
                ABOUT
            ):  # a message like any other: left out for a smaller search
                continue
            unsaved[row.key] = row
            if row.state == "waiting":
                rows[row.key] = row
            else:
                rows.pop(row.key, None)
                ended += (row,)
        health = tuple(sorted({**dict(self.health), name: done.health}.items()))
        world = self.but(
            rows=tuple(rows.values()), unsaved=tuple(unsaved.values()), ended=ended, health=health
        )
        late = any(map(self.may, ("crash", "relay", "lost", "full")))
        return world if late else world.mark()  # when it is stored matters no more

    def _check_said(self, done: DeliveryPlan, name: str) -> None:
        """None is given up unsaid, where somebody can hear it."""
        given_up = [row for row in done.rows if row.state == "expired" and "never told" not in row.failure]
        health = dict(self.health)
        hear = [
            way
            for way in self.names
            if way != name and not health.get(way, Health()).broken(self.now, POLICY)
        ]
        said = [row for row in done.rows if row.message.thread.startswith(ABOUT)]
        assert said or not (given_up and hear), "one was given up, and nobody was told"
        was = health.get(name, Health()).reported
        assert said or was or not (done.health.reported and hear), "a broken channel was not reported"

    def learn(self, name: str) -> "World":
        """What others delivered on a channel is marked."""
        others = [each for each in self.acknowledged if each.channel == name]
        if not others:
            return self
        rest = tuple(each for each in self.acknowledged if each.channel != name)
        world = self.but(acknowledged=rest, noted=(*self.noted, *others))
        situation = Situation(world.channels, name, self.now, POLICY)
        return world.write(situation.after_others(others), name)

    def look(self, name: str) -> tuple["World", DeliveryPlan]:
        """The plan of a channel, after what others delivered is known; its rows written."""
        world = self.learn(name)
        while True:
            found = world.situation(name).plan()
            world = world.write(found, name)
            if found.rows and not dict(self.left).get("full"):  # stored before anything is sent
                world = world.mark()
            if found.sends or not any(row.channel == name for row in found.rows):
                return world, found

    def delivered(self, send: Send) -> "World":
        row = send.row
        return self.but(came=(*self.came, (row.channel, row.key, send.message.items)))

    def acknowledge(self, send: Send) -> "World":
        keys = (row.key for row in (send.row, *send.carried))
        found = tuple(Delivered(key, send.row.channel, self.now, "r") for key in keys)
        return self.but(acknowledged=(*self.acknowledged, *found))

    def note(self, send: Send) -> "World":
        """The daemon acknowledges what it delivered itself."""
        world = self.acknowledge(send)
        return self.but(noted=(*self.noted, *world.acknowledged[len(self.acknowledged) :]))

    def tried(self, send: Send, outcome: str | DeliveryError) -> "World":
        done = self.situation(send.row.channel).after_try(send, outcome)
        return self.write(done, send.row.channel)

    # ------------------------------------------------------------ what can happen

    def store_next(self) -> "World":
        """A round is stored, and its message handed over."""
        to: Step = {}
        for name, message in sorted(self.story[self.told].items(), key=lambda each: len(each[1].items)):
            to[self.route if name == ROUTE else name] = message  # the fuller, where both are for one
        kinds = list(dict.fromkeys(to.values()))  # a key is the same on each channel that is told the same
        names = [f"n{self.told}-{kinds.index(message)}" for message in to.values()]
        rows = [
            addressed(message, channel, self.now, name)
            for (channel, message), name in zip(to.items(), names, strict=True)
        ]
        world = self.but(stored=(*self.stored, *rows), rows=(*self.rows, *rows), told=self.told + 1)
        for row in rows:
            world = world.arrives(row)
        return world.rescue()

    def arrives(self, row: Notification) -> "World":
        if row.channel not in self.names:
            return self
        situation = self.situation(row.channel)
        copies = DeliveryPlan(situation.channel.health, tuple(situation.arrival(row)))
        return self.write(copies, row.channel)

    def rescue(self) -> "World":
        if "slack" in self.names:
            return self
        world = self.learn("slack")
        lost = [row for row in world.rows if row.channel == "slack"]
        found = DeliveryPlan(Health(), tuple(world.situation("slack").orphans(lost)))
        return world.write(found, "slack").mark()

    def mark(self) -> "World":
        stored = {row.key: row for row in self.stored}
        for row in self.unsaved:
            known = stored.get(row.key)
            if known is None or known.state in ("waiting", "diverted"):
                stored[row.key] = row
        return self.but(stored=tuple(stored.values()), unsaved=(), noted=())

    def crash(self) -> "World":
        """A new life of the daemon, from what is stored."""
        files = (*self.acknowledged, *self.noted)
        world = self.but(rows=(), ended=(), unsaved=(), health=(), acknowledged=files, noted=())
        ended = tuple(row for row in self.stored if row.state != "waiting")
        waiting = tuple(row for row in self.stored if row.state == "waiting")
        world = world.but(ended=ended, rows=waiting)
        for row in waiting:
            world = world.arrives(row)
        return world.rescue()

    def relay(self, name: str) -> Iterator["World"]:
        """A relay sends what is next on a channel, as far as the history and the locks' files tell."""
        over = {each.key for each in (*self.acknowledged, *self.noted)}
        past = [row for row in self.stored if row.state != "waiting"]
        past += [replace(row, state="sent", receipt="r") for row in self.stored if row.key in over]
        waits = [row for row in self.stored if row.state == "waiting" and row.key not in over]
        fresh = [replace(row, attempts=0, next_try=0.0) for row in waits if row.channel == name]
        other = World(self.story, (), rows=tuple(fresh), ended=tuple(past), names=(name,), now=self.now)
        found = Situation(other.configured(), name, self.now, RELAYS).plan()
        for send in found.sends:
            came = self.after("relay").delivered(send)
            yield came.acknowledge(send)
            if self.may("lost"):  # it is killed before it can say so
                yield came.after("lost")

    def nexts(self) -> Iterator["World"]:
        if self.told < len(self.story):
            yield self.store_next()
        if self.unsaved and (self.may("crash") or self.may("relay") or self.may("lost")):
            yield self.mark()
        if self.may("crash"):
            yield self.after("crash").crash()
        if self.may("route"):
            yield self.after("route").but(route="mail", health=())
        if self.may("day") and self.rows:
            yield self.after("day").but(now=self.now + POLICY.expire)
        if self.may("removal"):
            yield self.after("removal").but(names=("mail",), health=()).rescue()
        yield from self.work()

    def work(self) -> Iterator["World"]:
        """What the workers do next, or a relay; time passes where they can do nothing."""
        later = math.inf
        for name in self.names:
            world, found = self.look(name)
            if world.key != self.key:
                yield world
            elif found.sends:
                yield from world.tries(found.sends[0])
            if self.may("relay"):
                yield from self.relay(name)
            later = min(later, self.now if found.sends else found.until)
        if self.now < later < self.now + POLICY.expire / 2:
            yield self.but(now=later)

    def tries(self, send: Send) -> Iterator["World"]:
        if self.may("gone") and send.row.channel == "slack":
            yield self.tried(send, REVOKED)
            return
        came = self.delivered(send)
        yield came.note(send).tried(send, "r")
        if self.may("lost"):  # the daemon is killed before it can say so, or no answer comes back
            yield came.after("lost").crash()
            yield came.after("lost").tried(send, REFUSED)
        for event, fault in (("refused", REFUSED), ("revoked", REVOKED)):
            if self.may(event):
                yield self.after(event).tried(send, fault)


def _check(world: World) -> None:
    assert all(items for _, _, items in world.came), "one was sent that says nothing any more"
    longest = LONGEST + (POLICY.expire if world.spent("day") else 0.0)
    assert world.now < NOON + longest, "one waits though another channel works"
    keys = Counter((channel, key) for channel, key, _ in world.came)
    facts = Counter((channel, item.fact) for channel, _, items in world.came for item in items)
    counts = (*keys.values(), *facts.values())
    assert all(count <= 1 + world.unsaid for count in counts), "one came too often"
    for name in CHANNELS:
        newest: dict[str, int] = {}
        ended: set[int] = set()
        for channel, _, items in world.came:
            if channel != name:
                continue
            first = items[0]  # what is told with it stands behind
            number = first.incident or 0
            assert not (first.ended and number < newest.get(first.line, 0)), "an end came too late"
            assert first.ended or number not in ended, "an end came before its beginning"
            newest[first.line] = max(number, newest.get(first.line, 0))
            ended |= {number} if first.ended else set()


def _check_nothing_is_lost(world: World) -> None:
    assert world.is_over, f"these wait for ever: {[row.key for row in world.rows]}"
    told = {(item.incident, item.status) for _, _, items in world.came for item in items}
    told |= {(item.incident, item.status) for row in _given_up(world) for item in row.message.items}
    items = _items(world.story)
    for item in (item for item in items if not item.quiet):
        outdated = item.ended and any(
            other.outdates(item) and (other.incident, other.status) in told for other in items
        )
        over = not item.ended and (item.incident, "RESOLVED") in told
        assert (item.incident, item.status) in told or outdated or over, f"lost: {item}"
    if world.may("lost") or "lost" not in dict(world.left):
        _check_ends_follow(world)


def _items(story: tuple[Step, ...]) -> list[Item]:
    return [item for step in story for message in step.values() for item in message.items]


def _ends(story: tuple[Step, ...], channel: str) -> list[Item]:
    """The ends that a channel is told where it was told the beginning: quiet ones by its own messages."""
    return [
        item
        for step in story
        for name, message in step.items()
        for item in message.items
        if item.ended and not (item.quiet and name != channel)
    ]


def _given_up(world: World) -> list[Notification]:
    """What a day was too short for."""
    return [row for row in world.ended if row.state == "expired" and world.spent("day")]


def _check_ends_follow(world: World) -> None:
    """Wherever a beginning came, its end came, or something newer; where each answer came back.

    Unless the channel takes others, but never this one.
    """
    for name in world.names:
        refused = {item for row in world.ended if row.state == "failed" for item in row.message.items}
        refused |= {item for row in _given_up(world) for item in row.message.items}
        items = [item for channel, _, items in world.came if channel == name for item in items]
        for end in _ends(world.story, name):
            begun = any(each.incident == end.incident and not each.ended for each in items)
            heard = any(each == end or each.outdates(end) for each in items)
            assert heard or end in refused or not begun, (
                f"{name} was told of {end.incident}, and never of its end"
            )


UNREAD = addressed(Message("", "", "", "", "", NOON), "", NOON, "")


@lru_cache(10_000)
def _channel(
    name: str,
    health: Health,
    rows: tuple[Notification, ...],
    ended: tuple[Notification, ...],
    known: tuple[str, ...],
) -> ChannelState:
    """A channel as the daemon remembers it; plans change nothing in it."""
    channel = ChannelState(name)
    channel.health = health
    for row in ended:
        channel.end(row)
    for key in known:
        old = channel.ended.get(key) or replace(UNREAD, key=key, channel=name)
        channel.end(old if channel.has_ended(key) else replace(old, state="sent"))
    for row in rows:
        channel.put(row)
    return channel


MOST = 120 if QUICK else math.inf
"""How many worlds of a story are looked at: each that the search comes to leads to ends of it."""


@dataclass
class Search:
    """Depth first through all worlds that can be reached."""

    seen: set[object] = field(default_factory=set)

    def run(self, first: World) -> int:
        waiting = [first]
        while waiting and len(self.seen) < MOST:
            world = waiting.pop()
            if world.key in self.seen:
                continue
            self.seen.add(world.key)
            _check(world)
            found = list(world.nexts())
            if not found or world.is_over:
                _check_nothing_is_lost(world)
            waiting += found
        return len(self.seen)


FEW = {
    "a kill": {"crash": 1},
    "a revoked hook and a full disk": {"revoked": 1, "full": 1},
    "a revoked hook and an edit of the routes": {"revoked": 1, "route": 1},
    "a hook that is gone for ever, and a kill": {"gone": 1, "crash": 1},
}
"""What happens to stories of five messages: all of it would take minutes, and finds nothing more."""
CASES = [
    (story, f"{story}: {events}", budget)
    for story, steps in STORIES.items()
    for events, budget in (BUDGETS if all(len(step) == 1 for step in steps) else FEW).items()
]


@pytest.mark.parametrize(
    ("story", "budget"), [(story, budget) for story, _, budget in CASES], ids=[name for _, name, _ in CASES]
)
def test_no_order_of_events_breaks_the_promise(story: str, budget: dict[str, int]) -> None:
    worlds = Search().run(World(STORIES[story], tuple(budget.items())))
    print(f"{worlds} worlds")
    assert worlds > 100
