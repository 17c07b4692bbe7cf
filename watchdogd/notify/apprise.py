"""Any service that apprise knows (extra: watchdogd[apprise]): SMS, Teams, Telegram, PagerDuty, ntfy …"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from watchdogd.errors import ConfigError, DeliveryError
from watchdogd.notify.sender import PartlyDeliveredError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchdogd.notify.notification import Notification

_TYPES = {"CRITICAL": "failure", "RESOLVED": "success", "OK": "info"}


class Apprise:
    """`type = "apprise"`: one URL, or several with spaces or commas between. The receipt is which have it.

    ConfigError where apprise is not installed, or does not know the URL.
    """

    threaded = False

    def __init__(self, url: str) -> None:
        try:
            import apprise
        except ImportError:
            raise ConfigError("apprise is not installed: pip install 'watchdogd[apprise]'") from None
        # Its own log repeats addresses that it does not understand, and with them what is secret.
        logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
        found = apprise.Apprise()
        if not found.add(url) or not len(found):
            raise ConfigError("url is none that apprise knows: see 'apprise --details'")
        # One collection a service: only a collection turns plain text into what its service shows.
        self._services = {str(at): _alone(service) for at, service in enumerate(found)}

    def send(self, notification: Notification, _roots: Sequence[Notification], /) -> str:
        """Hand it to each service that does not have it yet."""
        have = set(notification.receipt.split())
        message = notification.message
        kind = _TYPES.get(message.status, "warning")
        lack = [at for at in self._services if at not in have]
        failed = [
            at
            for at in lack
            if not self._services[at].notify(message.body, message.headline, kind, body_format="text")
        ]
        receipt = " ".join(sorted(have | (set(lack) - set(failed))))
        if not failed:
            return receipt
        names = ", ".join(sorted({str(next(iter(self._services[at])).service_name) for at in failed}))
        if receipt:
            raise PartlyDeliveredError(f"apprise could not reach {names}", receipt=receipt)
        raise DeliveryError(f"apprise could not reach {names}")

    def close(self) -> None:
        """apprise keeps nothing open."""


def _alone(service: Any) -> Any:
    import apprise

    alone = apprise.Apprise()
    alone.add(service)
    return alone
