"""The one shell line injection writes as the container's command; its arguments are the user's command.

It runs the command bare when python3 is missing, no folder takes the mark, or the supervisor ended before the mark, and only then. A TERM
from the kubelet is passed on; told to end before the command began, it does not begin.
"""

from __future__ import annotations

WRAPPER = (
    'm=; for d in "$RELIGHT_VOLUME" /dev/shm /tmp; do [ -n "$d" ] && [ -d "$d" ] && [ -w "$d" ] && m="$d/.relight-mark.$$" && break; done; '
    'if [ -n "$m" ] && command -v python3 >/dev/null 2>&1; then rm -f "$m"; p=; e=; '
    'trap \'e=1; [ -n "$p" ] && kill -TERM "$p" 2>/dev/null\' TERM; exec 3<&0; '
    'RELIGHT_MARK="$m" python3 "$RELIGHT_SUPERVISOR" -- "$@" <&3 3<&- & p=$!; [ -n "$e" ] && kill -TERM "$p" 2>/dev/null; '
    'while :; do wait "$p"; c=$?; kill -0 "$p" 2>/dev/null || break; done; '
    'if [ -e "$m" ]; then rm -f "$m"; exit "$c"; fi; [ -n "$e" ] && exit 143; trap - TERM; exec 3<&-; fi; exec "$@"'
)


def wrapped(command: list[str]) -> list[str]:
    """The command of a container, wrapped."""
    return ["sh", "-c", WRAPPER, "relight", *command]
