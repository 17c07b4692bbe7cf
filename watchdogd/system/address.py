"""Addresses of the web as somebody wrote them."""

from __future__ import annotations

from urllib.parse import urlsplit


def web_host(url: str) -> str:
    """The host of an http or https address; empty where it is none, or its port is none."""
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in ("http", "https") and parts.port != 0
        return (parts.hostname or "") if is_one else ""
    except ValueError:  # brackets that do not close, a port that is no number
        return ""
