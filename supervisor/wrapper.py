"""The one shell line injection writes as the container's command; its arguments are the user's command.

It runs the command bare when python3 is missing, no folder takes the mark, or the supervisor ended before the mark, and only then. A TERM
from the kubelet is passed on; told to end before the command began, it does not begin.
"""

from __future__ import annotations

WRAPPER = (
    'm=; for d in "$RELIGHT_VOLUME" /dev/shm /tmp; do [ -n "$d" ] && f="$d/.relight-mark.$$" '
    '&& ( : >"$f" ) 2>/dev/null && rm -f "$f" && m="$f" && break; done; '
    'if [ -n "$m" ] && command -v python3 >/dev/null 2>&1; then p=; e=; t=; '
    'trap \'e=1; t=1; [ -n "$p" ] && kill -TERM "$p" 2>/dev/null\' TERM; '
    'for s in HUP INT QUIT USR1 USR2 WINCH; do trap "t=1; [ -n "\\$p" ] && kill -$s "\\$p" 2>/dev/null" "$s"; done; '
    "[ -e /proc/self/fd/0 ] && exec 3<&0 || exec 3</dev/null; "
    'RELIGHT_MARK="$m" python3 -I -S "$RELIGHT_SUPERVISOR" -- "$@" <&3 3<&- & p=$!; '
    '[ -n "$e" ] && kill -TERM "$p" 2>/dev/null; '
    'while :; do t=; wait "$p"; c=$?; [ -n "$t" ] && [ "$c" -gt 128 ] && kill -0 "$p" 2>/dev/null || break; done; '
    'if [ -n "$t" ]; then wait "$p" 2>/dev/null; n=$?; [ "$n" = 127 ] || c=$n; fi; '
    'if [ -e "$m" ]; then rm -f "$m"; exit "$c"; fi; [ -n "$e" ] && exit 143; '
    'trap - TERM HUP INT QUIT USR1 USR2 WINCH; exec 3<&-; fi; exec "$@"'
)


def wrapped(command: list[str]) -> list[str]:
    """The command of a container, wrapped."""
    return ["sh", "-c", WRAPPER, "relight", *command]
