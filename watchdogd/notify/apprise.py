"""Any service that apprise knows (extra: watchdogd[apprise]): SMS, Teams, Telegram, PagerDuty, ntfy …"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from watchdogd.errors import ConfigError, DeliveryError
from watchdogd.notify.notification import incident_thread
from watchdogd.notify.pager import Pager, is_pager
from watchdogd.notify.sender import PartlyDeliveredError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from watchdogd.notify.notification import Item, Message, Notification

_TYPES = {"CRITICAL": "failure", "RESOLVED": "success", "OK": "info", "INFO": "info", "ACTION": "info"}


class Apprise:
    """`type = "apprise"`: one URL, or several with spaces or commas between. The receipt is which have what.

    Pagers are told of each incident by its own key, which begins with `prefix`; what is quiet goes to pagers
    alone. ConfigError where apprise is not installed, or does not know the URL.
    """

    threaded = False

    def __init__(self, url: str, prefix: str = "watchdogd-") -> None:
        try:
            import apprise
        except ImportError:
            raise ConfigError("apprise is not installed: pip install 'watchdogd[apprise]'") from None
        # Its own log repeats addresses that it does not understand, and with them what is secret.
        logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
        found = apprise.Apprise()
        if not found.add(url) or not len(found):
            raise ConfigError("url is none that apprise knows: see 'apprise --details'")
        self._services: dict[str, _Plain | Pager] = {
            str(at): Pager(service, prefix) if is_pager(service) else _Plain(service)
            for at, service in enumerate(found)
        }

    def send(self, notification: Notification, _roots: Sequence[Notification], /) -> str:
        """Hand each service what it does not have yet."""
        have = set(notification.receipt.split())
        lack = {name: part for name, part in self._parts(notification.message) if name not in have}
        failed = {name: part.to for name, part in lack.items() if not part.tell()}
        receipt = " ".join(sorted(have | (lack.keys() - failed.keys())))
        if not failed:
            return receipt
        names = ", ".join(sorted({service.name for service in failed.values()}))
        if receipt:
            raise PartlyDeliveredError(f"apprise could not reach {names}", receipt=receipt)
        raise DeliveryError(f"apprise could not reach {names}")

    def _parts(self, message: Message) -> Iterator[tuple[str, _Part]]:
        """What each service is to be told, by a name within the receipt."""
        incidents = [item for item in message.items if item.incident is not None]
        for at, service in self._services.items():
            if isinstance(service, Pager) and incidents:
                for item in incidents:
                    yield f"{at}:{item.incident}", _Part(service, message, item)
            elif not message.quiet:
                yield at, _Part(service, message)

    def close(self) -> None:
        """apprise keeps nothing open."""


class _Plain:
    """A service that shows messages, and knows of no incident."""

    def __init__(self, service: Any) -> None:
        import apprise

        self.name = str(service.service_name)
        self._service = apprise.Apprise()  # only a collection turns plain text into what its service shows
        self._service.add(service)

    def tell(self, _thread: str, _item: Item | None, kind: str, title: str, body: str) -> bool:
        """Whether the service took it."""
        return bool(self._service.notify(body, title, kind, body_format="text"))


@dataclass(frozen=True, slots=True)
class _Part:
    """What one service is told: all of a message, or of the one incident `item`."""

    to: _Plain | Pager
    message: Message
    item: Item | None = None

    def tell(self) -> bool:
        """Whether it was taken."""
        message, item = self.message, self.item
        if item is None:
            return self._tell(message.thread, message.status, message.headline)
        title = message.headline
        if len([each for each in message.items if each.incident is not None]) > 1:
            title = f"[{item.status}] {message.target}: {item.summary}"
        return self._tell(incident_thread(item.incident or 0), item.status, title)

    def _tell(self, thread: str, status: str, title: str) -> bool:
        kind = _TYPES.get(status, "warning")
        return self.to.tell(thread, self.item, kind, title, self.message.body)
