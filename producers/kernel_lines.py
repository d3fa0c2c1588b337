"""Layouts of kernel log lines: `/dev/kmsg` records, and the same lines as dmesg, syslog and the journal write them.

A line becomes its text, its time as the layout tells it, and whether the kernel itself said it. The last matters: programs can write to the
log, and the kernel gives such records a facility of their own that it lets nobody fake (Documentation/ABI/testing/dev-kmsg). In syslog layouts
the tag `kernel:` says so, which is as good as the syslog daemon. What a program wrote is never a fault.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

import re2

LONGEST_LINE: Final = 16 * 1024
"""Bytes. The kernel's own records are shorter (about 1 KiB of text); a longer line of a file is none of it."""

# Microseconds since boot of at most 16 digits: 317 years. What claims more is no record, and would overflow a time.
_RECORD: Final = re2.compile(r"(?s)^([0-9]{1,4}),([0-9]{1,20}),([0-9]{1,16}),[^;]{0,64};(.*)$")
_ESCAPE: Final = re2.compile(r"\\x([0-9a-fA-F]{2})")
_PRIORITY: Final = re2.compile(r"^<([0-9]{1,4})>(.*)$")
_DECODED: Final = re2.compile(r"^([a-z0-9]{2,9}) *:([a-z]{3,7}) *: ?(.*)$")
_SINCE_BOOT: Final = re2.compile(r"^\[ *([0-9]{1,9})\.([0-9]{1,6})\](?:\[ *[TC][0-9]{1,8}\])? ?(.*)$")
_CTIME: Final = re2.compile(
    r"^\[([A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9][0-9] [0-9]{2}:[0-9]{2}:[0-9]{2} [0-9]{4})\] ?(.*)$"
)
_ISO: Final = re2.compile(
    r"^\[?([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,]([0-9]{1,9}))?"
    r"(Z|[+-][0-9]{2}:?[0-9]{2})?\]? (.*)$"
)
_SYSLOG: Final = re2.compile(
    r"^([A-Z][a-z]{2}) ([ 0-9][0-9]) ([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))? (.*)$"
)
_TAGGED: Final = re2.compile(r"^[^ ]{1,255} ([^ :\[]{1,64})(?:\[[0-9]{1,10}\])?: ?(.*)$")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_KERNEL: Final = "kern"
_FACILITY_BITS: Final = 3
_PRINTABLE: Final = range(0x20, 0x7F)
_OURS: Final = re2.compile(r"^(?:NVRM|nvidia-[a-z]{2,16}[0-9]{0,4}): ")


@dataclass(frozen=True, slots=True)
class KernelLine:
    """One line. `at` and `since_boot` are what the layout tells; both None when it tells no time."""

    text: str
    at: datetime | None = None
    since_boot: timedelta | None = None
    from_kernel: bool = True


@dataclass(frozen=True, slots=True)
class KmsgRecord:
    """One record of `/dev/kmsg`: its number, and its lines (nearly always one)."""

    sequence: int
    lines: tuple[KernelLine, ...]


def read_record(raw: bytes) -> KmsgRecord | None:
    """Read one record; None when it is none. Lines behind the first that begin with a blank are properties, not text."""
    found = _RECORD.match(raw.decode("utf-8", errors="replace"))
    if found is None:
        return None
    text = found[4].partition("\n")[0]
    from_kernel = int(found[1]) >> _FACILITY_BITS == 0
    since_boot = timedelta(microseconds=int(found[3]))
    lines = tuple(
        KernelLine(printable(line), since_boot=since_boot, from_kernel=from_kernel)
        for line in _unescape(text).split("\n")
    )
    return KmsgRecord(int(found[2]), lines)


def _unescape(text: str) -> str:
    r"""The kernel writes control characters, non-ASCII and the backslash as \xNN."""
    if "\\x" not in text:
        return text
    latin: str = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
    try:
        return latin.encode("latin-1").decode("utf-8", errors="replace")
    except UnicodeEncodeError:  # not all of it was escaped
        return latin


def printable(text: str) -> str:
    """Text that is safe to show: what a job put into the log must not drive a terminal (design 11)."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text.replace("\t", " ")
    )


def read_line(text: str, *, zone: tzinfo = UTC, now: datetime | None = None) -> KernelLine:
    """Read a line of a log file, in whichever layout.

    Args:
        text: one line, without its end.
        zone: zone of times that name none (dmesg -T, RFC 3164 syslog).
        now: gives RFC 3164 times, which have no year, the latest year in which they are not in the future.
    """
    line = text.rstrip("\r\n")
    record = _RECORD.match(line)
    if record is not None:
        read = read_record(line.encode("utf-8", errors="replace"))
        return read.lines[0] if read else KernelLine(printable(line), from_kernel=False)
    line, from_kernel = _without_priority(line)
    read_as = _in_brackets(line, zone) or _iso(line, zone) or _syslog(line, zone, now) or KernelLine(line)
    return replace(read_as, text=printable(read_as.text), from_kernel=from_kernel and read_as.from_kernel)


def _without_priority(line: str) -> tuple[str, bool]:
    numbered = _PRIORITY.match(line)
    if numbered is not None:
        return numbered[2], int(numbered[1]) >> _FACILITY_BITS == 0
    decoded = _DECODED.match(line)
    if decoded is not None:
        return decoded[3], decoded[1] == _KERNEL
    return line, True


def _in_brackets(line: str, zone: tzinfo) -> KernelLine | None:
    since = _SINCE_BOOT.match(line)
    if since is not None:
        passed = timedelta(seconds=int(since[1]), microseconds=int(since[2].ljust(6, "0")))
        return KernelLine(since[3], since_boot=passed)
    stamped = _CTIME.match(line)
    if stamped is None:
        return None
    try:
        local = datetime.strptime(stamped[1], "%a %b %d %H:%M:%S %Y").replace(tzinfo=zone)
    except ValueError:
        return None
    return KernelLine(stamped[2], at=_in_utc(local))


def _iso(line: str, zone: tzinfo) -> KernelLine | None:
    found = _ISO.match(line)
    if found is None:
        return None
    fraction = (found[3] or "0")[:6].ljust(6, "0")
    try:
        at = datetime.fromisoformat(f"{found[1]}T{found[2]}.{fraction}{found[4] or ''}")
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=zone)
    return _behind_tag(found[5], _in_utc(at))


def _syslog(line: str, zone: tzinfo, now: datetime | None) -> KernelLine | None:
    found = _SYSLOG.match(line)
    if found is None or found[1] not in _MONTHS:
        return None
    at = _in_year(found, zone, now) if now is not None else None
    return _behind_tag(found[7], at)


def _in_year(found: re2._Match[str], zone: tzinfo, now: datetime) -> datetime | None:
    fraction = int((found[6] or "0").ljust(6, "0"))
    month, day = _MONTHS.index(found[1]) + 1, int(found[2])
    for year in (now.astimezone(zone).year + 1, now.astimezone(zone).year, now.astimezone(zone).year - 1):
        try:
            local = datetime(
                year, month, day, int(found[3]), int(found[4]), int(found[5]), fraction, tzinfo=zone
            )
        except ValueError:  # the 29th of February
            continue
        if local <= now + timedelta(days=1):
            return _in_utc(local)
    return None


def _in_utc(at: datetime) -> datetime | None:
    """The same moment in UTC; None at the ends of the calendar, where no kernel ran."""
    try:
        return at.astimezone(UTC)
    except OverflowError:
        return None


def _behind_tag(rest: str, at: datetime | None) -> KernelLine:
    """Behind the time come host and tag in syslog's layouts, the text itself in dmesg's; the text we look for is no host."""
    if _OURS.match(rest) is not None:
        return KernelLine(rest, at=at)
    tagged = _TAGGED.match(rest)
    if tagged is None or tagged[1] == "":
        return KernelLine(rest, at=at)
    inner = _SINCE_BOOT.match(tagged[2])
    text = inner[3] if inner is not None else tagged[2]
    return KernelLine(text, at=at, from_kernel=tagged[1] == "kernel")
