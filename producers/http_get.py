"""One bounded HTTP GET: of loopback exporters, with a limit of time for the whole of it and a limit of size.

aiohttp, since it has the total timeout that the standard library lacks, and tells an answer that was cut off from one that ended.
"""

from __future__ import annotations

from datetime import timedelta

import aiohttp

from producers.errors import ScrapeFailed

_OK = 200


async def http_get(url: str, *, timeout: timedelta, max_bytes: int) -> bytes:  # noqa: ASYNC109 - a limit of the request, not of the caller
    """Fetch a URL; redirects and proxies are not followed.

    Raises ScrapeFailed for anything but a whole 200 within the limits.
    """
    limit = aiohttp.ClientTimeout(total=timeout.total_seconds())
    try:
        async with (
            aiohttp.ClientSession(timeout=limit, trust_env=False) as session,
            session.get(url, allow_redirects=False) as answer,
        ):
            if answer.status != _OK:
                raise ScrapeFailed(f"{url} answered {answer.status}; right would be 200")
            body = bytearray()
            async for chunk in answer.content.iter_any():
                body += chunk
                if len(body) > max_bytes:
                    raise ScrapeFailed(f"{url} answered with more than {max_bytes:,} bytes")
            return bytes(body)
    except TimeoutError as error:
        raise ScrapeFailed(f"{url} did not answer within {timeout.total_seconds():g} s") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise ScrapeFailed(f"{url}: {str(error) or type(error).__name__}") from error
