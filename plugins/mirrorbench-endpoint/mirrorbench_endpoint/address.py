"""The address of a server: what is permitted in it, whether it is this machine, and the proxy on the way to it."""

from __future__ import annotations

import socket
import unicodedata
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from mirrorbench.plugin import ModelUnavailableError, UsageError


@dataclass(frozen=True)
class Address:
    """The address of a server.

    Attributes:
        url: the address as the user wrote it, without a slash at its end.
        host: name or number of its machine.
        is_local: whether the host is this machine, so that no text leaves it.
        proxy: the address of the proxy that the environment names for the host; ``None`` for none. It may hold a
            password.
    """

    url: str
    host: str
    is_local: bool
    proxy: str | None = field(default=None, repr=False)


def parse_address(url: str, offline: bool) -> Address:
    """Return the address that a user wrote.

    Args:
        url: such as ``http://localhost:8000/v1``.
        offline: whether only this machine may be asked.

    Raises:
        UsageError: it is no address of a server, holds a name, a key or a query, or may not be used offline.
        ModelUnavailableError: the host is unknown, and no proxy is there to know it.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        # The address is not quoted: it may have a key in it.
        raise UsageError("url= is not an address of a server", _EXAMPLE) from None
    host = parts.hostname or ""
    # Checked first, so that no message quotes the address with what is secret in it.
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise UsageError(
            f"the address of {host or 'the server'} has a name or a key in it",
            "Leave it out; key_env=NAME names the environment variable that holds a key.",
        )
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise UsageError(f"the address of {host or 'the server'} has a query in it", _EXAMPLE)
    if parts.scheme not in ("http", "https") or not host:
        raise UsageError(f"url={url} is not an address of a server", _EXAMPLE)
    if not url.isprintable() or unicodedata.normalize("NFKC", host) != host:
        # The client refuses such addresses, or reads another host in them.
        raise UsageError("url= has characters that no address has", _EXAMPLE)
    proxy = _proxy_for(host, parts.scheme)
    is_local = _is_this_machine(host, port, may_be_unknown=proxy is not None)
    if offline and not is_local:
        raise UsageError(
            f"{host} is not this machine, and --offline permits no other",
            "Leave out --offline, or name a server on localhost.",
        )
    return Address(url.rstrip("/"), host, is_local, None if is_local else proxy)


_EXAMPLE = "Write an address such as url=http://localhost:8000/v1"


def _proxy_for(host: str, scheme: str) -> str | None:
    """Return the proxy that the environment (``HTTPS_PROXY`` and the like, without ``NO_PROXY``) names for a host."""
    if proxy_bypass(host):
        return None
    proxies = getproxies()
    proxy = proxies.get(scheme) or proxies.get("all")
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy


def _is_this_machine(host: str, port: int | None, may_be_unknown: bool) -> bool:
    """Return whether all addresses of a host are loopback; behind a proxy, a host may be unknown here."""
    try:
        found = socket.getaddrinfo(host, port or 80, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        if may_be_unknown:
            return False
        raise ModelUnavailableError(
            f"the host {host} of an endpoint is unknown: {error}", "Check url= in the encoder spec."
        ) from error
    numbers = [str(address[0]).partition("%")[0] for *_, address in found]
    return all(ip_address(number).is_loopback for number in numbers)
