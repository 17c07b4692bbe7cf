"""Services of apprise with a life cycle: an incident of ours is opened, updated and closed there as one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode

if TYPE_CHECKING:
    from watchdogd.notify.notification import Item

SCHEMAS = frozenset(
    {
        *("firehydrant", "goalert", "goalerts", "ilert", "incidentio", "jira", "opsgenie", "opsimate"),
        *("opsimates", "pagerduty", "pagertree", "signl4", "splunk", "squadcast", "victorops"),
    }
)
"""How the URLs of such services begin: what `is_pager` finds in the apprise that we are tested with."""

_KEYS = ("dedup", "entity_id", "alias")
"""What services call the key by which they know an incident again; each has one of these."""

_SAME = frozenset({*_KEYS, "external_id", "thirdparty", "tid", "action"})
"""All names that stand for the key or for what is to be done."""


def schemas(url: str) -> frozenset[str]:
    """How the URLs begin that stand in `url`, with spaces or commas between."""
    return frozenset(
        part.partition("://")[0].lower() for part in url.replace(",", " ").split() if "://" in part
    )


def is_pager(service: Any) -> bool:
    """Whether it takes a key, and maps kinds of messages to opening and closing."""
    known = service.template_args
    return any(key in known for key in _KEYS) and "map" in known.get("action", {}).get("values", ())


class Pager:
    """One such service. `prefix` tells our incidents from those of other watchdogs that page by it."""

    def __init__(self, service: Any, prefix: str) -> None:
        self._service = service
        self._prefix = prefix
        self.name = str(service.service_name)

    def tell(self, thread: str, item: Item | None, kind: str, title: str, body: str) -> bool:
        """Whether the service took it: `item` opens, updates or closes the incident of that `thread`."""
        key = f"{self._prefix}{thread}"
        if item is not None and item.ended and "alias" in self._service.template_args:
            return self._close(key, body)
        return bool(self._keyed(key, item).notify(body, title, kind, body_format="text"))

    def _keyed(self, key: str, item: Item | None) -> Any:
        """The service with the key in its URL, as one would write it by hand."""
        import apprise

        address, _, query = self._service.url(privacy=False).partition("?")
        known = self._service.template_args
        fields = [(name, value) for name, value in parse_qsl(query) if name not in _SAME]
        action = "new" if item is None and "new" in known["action"]["values"] else "map"
        fields += [(next(name for name in _KEYS if name in known), key), ("action", action)]
        alone = apprise.Apprise()  # only a collection turns plain text into what its service shows
        alone.add(f"{address}?{urlencode(fields)}")
        return alone

    def _close(self, key: str, note: str) -> bool:
        """Opsgenie and Jira: apprise closes only what the same process opened, and says nothing where it
        knows of nothing to close; the services know an alert by its alias."""
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
