"""Any service that apprise knows (extra: watchdogd[apprise]): SMS, Teams, PagerDuty, ntfy and more."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import parse_qsl, quote, urlencode

from watchdogd.home.layout import Home
from watchdogd.notify.channel import (
    Channel,
    ConfigError,
    DeliveryError,
    Item,
    Message,
    Notification,
    PartlyDeliveredError,
    SecretField,
    Sender,
)
from watchdogd.notify.notification import incident_thread

_TYPES = {"CRITICAL": "failure", "RESOLVED": "success", "OK": "info", "INFO": "info", "ACTION": "info"}


SCHEMAS = frozenset((
    "firehydrant", "goalert", "goalerts", "ilert", "incidentio", "jira", "opsgenie", "opsimate", "opsimates",
    "pagerduty", "pagertree", "signl4", "splunk", "squadcast", "victorops",
))  # fmt: skip
"""URL schemes of pagers, as `is_pager` finds them in the apprise version used in tests."""

_KEYS = ("dedup", "entity_id", "alias")
"""Names of the key by which a service recognises an incident; each service has one of these."""

_SAME = frozenset({*_KEYS, "external_id", "thirdparty", "tid", "action"})
"""All parameter names for the key or the action."""


def schemas(url: str) -> frozenset[str]:
    """Return the schemes of the URLs in `url`, which are separated by spaces or commas."""
    return frozenset(
        part.partition("://")[0].lower() for part in url.replace(",", " ").split() if "://" in part
    )


def is_pager(service: Any) -> bool:
    """Return whether a service accepts a key and maps message types to opening and closing."""
    known = service.template_args
    return any(key in known for key in _KEYS) and "map" in known.get("action", {}).get("values", ())


class AppriseChannel(Channel):
    """Keys of type apprise: any service that apprise knows."""

    example: ClassVar[str] = """
[channels.pager]
type = "apprise"                        # pip install 'watchdogd[apprise]'
url  = "env:PAGER_URL"
"""

    url: SecretField

    @property
    def standing(self) -> bool:
        """Return whether one of its services is a pager."""
        with suppress(ConfigError):  # a missing secret is reported elsewhere
            return bool(schemas(self.url.reveal()) & SCHEMAS)
        return False

    def make_sender(self, home: Home) -> Sender:
        return Apprise(self.url.reveal(), f"watchdogd-{home.id}-")

    def try_connection(self, home: Home) -> str:
        """Check that apprise accepts the URL; the services themselves are too many to test."""
        self.make_sender(home).close()
        return "apprise takes its address"


class Apprise:
    """Sender to one or several URLs. The receipt names the parts that were delivered.

    Pagers get one message for each incident, with a key that begins with `prefix`; quiet messages go to
    pagers only. ConfigError where apprise is not installed or does not know the URL.
    """

    def __init__(self, url: str, prefix: str = "watchdogd-") -> None:
        try:
            import apprise
        except ImportError:
            raise ConfigError("apprise is not installed: pip install 'watchdogd[apprise]'") from None
        # Its log repeats URLs that it cannot parse, with their secrets.
        logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
        found = apprise.Apprise()
        if not found.add(url) or not len(found):
            raise ConfigError("url is none that apprise knows: see 'apprise --details'")
        self._services: dict[str, _Plain | Pager] = {
            str(at): Pager(service, prefix) if is_pager(service) else _Plain(service)
            for at, service in enumerate(found)
        }

    def send(self, notification: Notification, _roots: Sequence[Notification], /) -> str:
        """Send each service the parts that it does not have yet."""
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
        """Yield the part for each service, with its name in the receipt."""
        incidents = [item for item in message.items if item.incident is not None]
        for at, service in self._services.items():
            if isinstance(service, Pager) and incidents:
                for item in incidents:
                    yield f"{at}:{item.incident}", _Part(service, message, item)
            elif not message.quiet:
                yield at, _Part(service, message)

    def close(self) -> None:
        """Do nothing: apprise keeps no connection."""


class _Plain:
    """Service that shows messages and has no incidents."""

    def __init__(self, service: Any) -> None:
        import apprise

        self.name = str(service.service_name)
        self._service = apprise.Apprise()  # only a collection converts plain text for its service
        self._service.add(service)

    def tell(self, _thread: str, _item: Item | None, kind: str, title: str, body: str) -> bool:
        """Return whether the service accepted the message."""
        return bool(self._service.notify(body, title, kind, body_format="text"))


@dataclass(frozen=True, slots=True)
class _Part:
    """Part of a message for one service: all of it, or one incident (`item`)."""

    to: _Plain | Pager
    message: Message
    item: Item | None = None

    def tell(self) -> bool:
        """Return whether the service accepted it."""
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


class Pager:
    """Service with incidents. `prefix` distinguishes this home's incidents from those of other watchdogs."""

    def __init__(self, service: Any, prefix: str) -> None:
        self._service = service
        self._prefix = prefix
        self.name = str(service.service_name)

    def tell(self, thread: str, item: Item | None, kind: str, title: str, body: str) -> bool:
        """Open, update or close the incident of `thread`; return whether the service accepted it."""
        key = f"{self._prefix}{thread}"
        if item is not None and item.ended and "alias" in self._service.template_args:
            return self._close(key, body)
        return bool(self._keyed(key, item).notify(body, title, kind, body_format="text"))

    def _keyed(self, key: str, item: Item | None) -> Any:
        """Return the service with the key in its URL."""
        import apprise

        address, _, query = self._service.url(privacy=False).partition("?")
        known = self._service.template_args
        fields = [(name, value) for name, value in parse_qsl(query) if name not in _SAME]
        action = "new" if item is None and "new" in known["action"]["values"] else "map"
        fields += [(next(name for name in _KEYS if name in known), key), ("action", action)]
        alone = apprise.Apprise()  # only a collection converts plain text for its service
        alone.add(f"{address}?{urlencode(fields)}")
        return alone

    def _close(self, key: str, note: str) -> bool:
        """Close an alert of Opsgenie or Jira by its alias; apprise closes only those of its own process."""
        import requests

        service = self._service
        module = vars(sys.modules[type(service).__module__])
        lookup = next(value for name, value in module.items() if name.endswith("_API_LOOKUP"))
        address = lookup[service.region_name]
        payload = {"source": service.app_desc, "note": note}
        taken, _ = service._fetch(
            requests.post, f"{address}/{quote(key, safe='')}/close", payload, {"identifierType": "alias"}
        )
        return bool(taken)
