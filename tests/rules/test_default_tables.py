"""The shipped code tables agree with their README and their sources, and never isolate without a way back.

Read with nothing but the csv module: these are facts about the data, whatever loads it.
"""

import csv
import json
import re
from collections import Counter
from pathlib import Path

import pytest

TABLES = Path(__file__).parents[2] / "rules" / "default" / "tables"
NAMESPACE_OF = {
    "ascend.csv": "ascend",
    "ascend_server.csv": "node",
    "ascend_status.csv": "ascend-status",
    "dcgm.csv": "dcgm",
    "nvidia_xid.csv": "xid",
    "nvidia_sxid.csv": "sxid",
    "exit_codes.csv": "exit",
    "node_conditions.csv": "node",
}
COLUMNS = [
    *("code", "namespace", "name", "class", "level", "origin", "heal", "scope", "severity", "product"),
    *("repeat", "companion_of", "release", "escalation", "notify", "source", "version"),
]
DOMAINS = {
    "class": {"record", "self_heal_wait", "self_heal_reset", "deferred", "isolate", "none", ""},
    "origin": {"hardware", "software", "user", "unknown"},
    "heal": {"wait", "reset", "none"},
    "scope": {"chip", "ring", "node", "link", "rack", ""},
    "severity": {"notice", "minor", "major", "critical", ""},
    "repeat": {"never", ""},
    "release": {"repair", "clear", "none"},
    "notify": {"yes", "no"},
}
# Recovery 0: the class of each handling level of MindCluster; "" is a code without a default level.
CLASS_OF_LEVEL = {
    "NotHandleFault": "record",
    "SubHealthFault": "record",
    "RestartRequest": "self_heal_wait",
    "RestartRequestFault": "self_heal_wait",
    "RestartBusiness": "self_heal_wait",
    "FreeRestartNPU": "self_heal_reset",
    "RestartNPU": "self_heal_reset",
    "PreSeparateNPU": "deferred",
    "PreSeparateFault": "deferred",
    "SeparateNPU": "isolate",
    "SeparateFault": "isolate",
    "ManuallySeparateNPU": "isolate",
    "": "",
}
# Counted in the source at the commit the README names.
ROWS_OF_LEVEL = {
    "NotHandleFault": 156,
    "SubHealthFault": 31,
    "RestartRequest": 33,
    "RestartRequestFault": 1,
    "RestartBusiness": 24,
    "FreeRestartNPU": 23,
    "RestartNPU": 162,
    "PreSeparateNPU": 202,
    "PreSeparateFault": 51,
    "SeparateNPU": 228,
    "SeparateFault": 10,
    "": 10,
}
LISTS_BY_SEVERITY = [  # of faultCode.json; a code in two lists has the later one's level
    *("NotHandleFault", "SubHealthFault", "RestartRequest", "RestartBusiness"),
    *("FreeRestartNPU", "RestartNPU", "PreSeparateNPU", "SeparateNPU"),
]
SELF_HEAL = {"self_heal_wait", "self_heal_reset"}
HEAL_OF_CLASS = {"self_heal_wait": "wait", "self_heal_reset": "reset"}

Row = dict[str, str]


def rows(file: str) -> list[Row]:
    with (TABLES / file).open(encoding="utf-8", newline="") as table:
        return list(csv.DictReader(table))


def by_code(file: str) -> dict[str, Row]:
    return {row["code"]: row for row in rows(file)}


def by_ascend_code() -> dict[str, Row]:
    """Chips and their servers: two tables from one source."""
    return {row["code"]: row for row in ASCEND}


ASCEND = rows("ascend.csv") + rows("ascend_server.csv")
ALL_ROWS = [row for file in NAMESPACE_OF for row in rows(file)]
every_table = pytest.mark.parametrize("file", NAMESPACE_OF)


def where(test: list[Row]) -> list[tuple[str, str]]:
    """Rows by what identifies them, for a readable failure."""
    return [(row["namespace"], row["code"]) for row in test]


# ---------------------------------------------------------------- form


def test_no_table_is_without_a_test() -> None:
    assert {path.name for path in TABLES.glob("*.csv")} == set(NAMESPACE_OF)


@every_table
def test_every_table_has_the_same_columns_in_the_same_order(file: str) -> None:
    with (TABLES / file).open(encoding="utf-8", newline="") as table:
        lines = list(csv.reader(table))
    assert lines[0] == COLUMNS
    assert {len(line) for line in lines} == {len(COLUMNS)}


@every_table
def test_a_table_holds_its_own_namespace_only(file: str) -> None:
    assert {row["namespace"] for row in rows(file)} == {NAMESPACE_OF[file]}


@every_table
def test_tables_are_plain_ascii_with_unix_line_ends(file: str) -> None:
    content = (TABLES / file).read_bytes()
    assert content.isascii()
    assert b"\r" not in content


def test_a_code_stands_once_in_its_namespace() -> None:
    assert [key for key, times in Counter(where(ALL_ROWS)).items() if times > 1] == []


def test_every_code_can_be_carried_by_a_signal() -> None:
    assert where([row for row in ALL_ROWS if not re.fullmatch(r"[A-Za-z0-9_.:-]{1,64}", row["code"])]) == []


@pytest.mark.parametrize("column", DOMAINS)
def test_values_stay_within_the_column_s_words(column: str) -> None:
    assert {row[column] for row in ALL_ROWS} <= DOMAINS[column]


@pytest.mark.parametrize("column", ["code", "name", "source", "version"])
def test_no_row_is_without_name_or_provenance(column: str) -> None:
    assert where([row for row in ALL_ROWS if not row[column].strip()]) == []


def test_no_cell_has_stray_blanks_or_an_address() -> None:
    cells = [(row["code"], cell) for row in ALL_ROWS for cell in row.values()]
    assert [cell for cell in cells if cell[1] != cell[1].strip() or "://" in cell[1]] == []


@every_table
def test_the_readme_counts_the_rows_of_each_class(file: str) -> None:
    readme = (TABLES / "README.md").read_text(encoding="utf-8")
    found = re.search(
        rf"How many rows.*?^\| `{re.escape(file)}` \|(.*?)\|$", readme, re.DOTALL | re.MULTILINE
    )
    assert found is not None
    told = [int(cell.strip() or 0) for cell in found[1].split("|")]
    counted = Counter(row["class"] for row in rows(file))
    words = ["record", "self_heal_wait", "self_heal_reset", "deferred", "isolate", "none", ""]
    assert told == [counted[word] for word in words]
    assert f"| `{file}` | {len(rows(file))} |" in readme


# ---------------------------------------------------------------- sense


def test_no_class_that_can_isolate_is_without_a_way_back() -> None:
    can_isolate = [row for row in ALL_ROWS if row["class"] in SELF_HEAL | {"deferred", "isolate", ""}]
    assert where([row for row in can_isolate if row["release"] == "none"]) == []


def test_a_repeat_rule_that_isolates_is_not_without_a_way_back() -> None:
    assert where([row for row in ALL_ROWS if row["escalation"] and row["release"] == "none"]) == []


def test_what_never_isolates_names_no_way_back() -> None:
    never = [row for row in ALL_ROWS if row["class"] in {"record", "none"} and not row["escalation"]]
    assert where([row for row in never if row["release"] != "none"]) == []


def test_isolating_for_repair_is_never_ended_by_looking_again() -> None:
    serious = [row for row in ALL_ROWS if row["class"] in SELF_HEAL | {"isolate"}]
    assert where([row for row in serious if row["release"] != "repair"]) == []


def test_only_self_healing_classes_say_how_they_heal() -> None:
    classed = [row for row in ALL_ROWS if row["class"]]
    assert where([row for row in classed if row["heal"] != HEAL_OF_CLASS.get(row["class"], "none")]) == []


def test_isolation_deferral_and_an_open_class_are_always_told_to_people() -> None:
    told = [row for row in ALL_ROWS if row["class"] in {"isolate", "deferred", ""}]
    assert where([row for row in told if row["notify"] != "yes"]) == []


def test_a_row_without_class_has_no_severity_of_its_own() -> None:
    open_rows = [row for row in ALL_ROWS if not row["class"]]
    assert where([row for row in open_rows if row["severity"]]) == []


def test_no_isolating_fault_is_of_the_user_s_making() -> None:
    assert (
        where(
            [row for row in ALL_ROWS if row["class"] in {"isolate", "deferred"} and row["origin"] == "user"]
        )
        == []
    )


def test_a_companion_names_a_code_of_its_table_and_a_time() -> None:
    codes = set(where(ALL_ROWS))
    companions = {row["code"]: row["companion_of"] for row in ALL_ROWS if row["companion_of"]}
    assert companions == {"80C98009": "80E01801/5s", "80CB8009": "80E01801/5s"}
    assert ("ascend", "80E01801") in codes


def test_every_wait_and_count_of_an_escalation_has_its_unit() -> None:
    entry = r"(\d+/\d+s/[A-Za-z]+|release/\d+s|lasting/\d+s/[A-Za-z]+|recovered/\d+s)"
    escalations = {row["escalation"] for row in ALL_ROWS if row["escalation"]}
    assert escalations
    assert [text for text in escalations if not re.fullmatch(f"{entry}(;{entry})*", text)] == []


# ---------------------------------------------------------------- Ascend


def test_ascend_has_every_row_of_the_study() -> None:
    files = Counter(row["source"].split(";")[0].rpartition("/")[2] for row in ASCEND)
    assert files == {
        "faultCode.json": 802,
        "NodeDConfiguration.json": 59,
        "SwitchFaultCode.json": 30,
        "publicFaultConfiguration.json": 30,
        "kg-config.json": 10,  # four chip and six server codes without a default level
    }


def test_ascend_levels_map_to_the_documented_class() -> None:
    assert where([row for row in ASCEND if row["class"] != CLASS_OF_LEVEL[row["level"]]]) == []


def test_ascend_levels_are_as_many_as_in_the_source() -> None:
    assert Counter(row["level"] for row in ASCEND) == ROWS_OF_LEVEL


def test_only_the_two_input_errors_are_plain_user_class() -> None:
    assert {row["code"] for row in ASCEND if row["origin"] == "user"} == {"80C98002", "80CB8002"}


@pytest.mark.parametrize("code", ["80C98003", "8C2FA001"])
def test_a_mixed_origin_counts_as_hardware_and_says_so(code: str) -> None:
    row = by_ascend_code()[code]
    assert row["origin"] == "hardware"
    assert "User" in row["name"]


@pytest.mark.parametrize(
    ("code", "class_", "scope"),
    [
        ("80E01801", "self_heal_wait", "chip"),
        ("80E18402", "isolate", "chip"),
        ("80C98002", "self_heal_wait", "chip"),
        ("81078603", "record", "link"),
        ("8C1F8608", "record", "link"),
        ("4C1F8608", "record", "link"),
        ("8C1F860B", "record", "link"),
        ("A2301001", "isolate", "chip"),
        ("2C000031", "isolate", "node"),
        ("0000001D", "deferred", "node"),
        ("0x08520003:na:L2:na", "record", "link"),
        ("0x00f103b0:155907:na:na", "isolate", "rack"),
        ("020001001", "isolate", "chip"),
    ],
)
def test_well_known_ascend_codes(code: str, class_: str, scope: str) -> None:
    row = by_ascend_code()[code]
    assert (row["class"], row["scope"]) == (class_, scope)


def test_mindcluster_s_repeat_rules_are_shipped_as_information() -> None:
    escalations = {row["code"]: row["escalation"] for row in ASCEND if row["escalation"]}
    assert len(escalations) == 43
    assert escalations["80E01801"] == "2/86400s/ManuallySeparateNPU"
    assert escalations["80E18005"] == "3/86400s/ManuallySeparateNPU"
    assert escalations["81078603"].startswith("5/86400s/ManuallySeparateNPU;release/172800s;")
    assert "80C98002" not in escalations
    assert "80CB8002" not in escalations


def test_chip_levels_equal_mindcluster_s_own_file(relight_data: Path) -> None:
    lists: dict[str, list[str]] = json.loads(
        (relight_data / "mindcluster" / "faultCode.json").read_text("utf-8")
    )
    assert {name.removesuffix("Codes") for name in lists} == set(LISTS_BY_SEVERITY)
    levels = {code: level for level in LISTS_BY_SEVERITY for code in lists[f"{level}Codes"]}
    table = by_ascend_code()
    assert {code: table[code]["level"] for code in levels if code in table} == levels
    from_that_file = {code for code, row in table.items() if "faultCode.json" in row["source"]}
    assert from_that_file == set(levels)


def test_switch_and_public_levels_equal_mindcluster_s_own_files(relight_data: Path) -> None:
    folder = relight_data / "mindcluster"
    switch: dict[str, list[str]] = json.loads((folder / "SwitchFaultCode.json").read_text("utf-8"))
    public_file = json.loads((folder / "publicFaultConfiguration.json").read_text("utf-8"))
    public: dict[str, list[str]] = public_file["publicFaultCode"]
    levels = {
        code.strip("[]").replace(",", ":"): name.removesuffix("Codes")
        for lists in (switch, public)
        for name, codes in lists.items()
        for code in codes
    }
    table = by_ascend_code()
    assert len(levels) == 60
    assert {code: table[code]["level"] for code in levels if code in table} == levels


def test_repeat_rules_equal_mindcluster_s_own_file(relight_data: Path) -> None:
    text = (relight_data / "mindcluster" / "faultCustomization.json").read_text("utf-8")
    expected = {
        code: f"{block['Times']}/{block['TimeWindow']}s/{block['FaultHandling']}"
        for block in json.loads(text)["FaultFrequency"]
        for code in block["EventId"]
    }
    found = {row["code"]: row["escalation"].split(";")[0] for row in ASCEND if row["escalation"]}
    assert found == expected


# ---------------------------------------------------------------- NVIDIA


@pytest.mark.parametrize(
    ("code", "class_"),
    [
        ("13", "record"),
        ("31", "record"),
        ("43", "record"),
        ("45", "record"),
        ("48", "self_heal_reset"),
        ("63", "record"),
        ("64", "isolate"),
        ("74", "self_heal_reset"),
        ("79", "isolate"),
        ("94", "self_heal_wait"),
        ("95", "self_heal_reset"),
        ("119", "self_heal_reset"),
        ("120", "self_heal_reset"),
        ("140", "self_heal_reset"),
        ("149", ""),
        ("154", ""),
    ],
)
def test_well_known_xids(code: str, class_: str) -> None:
    assert by_code("nvidia_xid.csv")[code]["class"] == class_


def test_no_xid_the_catalogue_tells_to_ignore_does_anything() -> None:
    ignored = [row for row in rows("nvidia_xid.csv") if row["level"] == "IGNORE"]
    assert len(ignored) == 21
    assert {row["class"] for row in ignored} == {"record"}


def test_only_these_xids_isolate_at_once() -> None:
    isolating = {row["code"] for row in rows("nvidia_xid.csv") if row["class"] == "isolate"}
    assert isolating == {"54", "64", "79", "142", "151"}


def test_the_trace_of_other_faults_is_never_counted() -> None:
    table = by_code("nvidia_xid.csv")
    assert {code for code, row in table.items() if row["repeat"] == "never"} >= {"45", "154", "171", "172"}


def test_persistent_ecc_nvlink_and_pcie_errors_are_counted() -> None:
    table = by_code("nvidia_xid.csv")
    for code in ("32", "48", "74", "94", "95", "136", "140"):
        assert table[code]["class"] in SELF_HEAL, code
        assert table[code]["repeat"] == "", code


def test_every_xid_in_use_has_a_row_and_no_unused_one_has(relight_data: Path) -> None:
    with (relight_data / "nvsentinel" / "xid_catalog.csv").open(encoding="utf-8", newline="") as catalogue:
        entries = list(csv.DictReader(catalogue))
    products = ("a100", "h100", "b100", "gb200")
    table = by_code("nvidia_xid.csv")
    for entry in entries:
        runs_on = {product.upper() for product in products if entry[f"applies_to_{product}"] == "YES"}
        row = table.get(entry["code"])
        if not runs_on and entry["description"] == "Unused":
            assert row is None, entry["code"]
            continue
        assert row is not None, entry["code"]
        assert set(filter(None, row["product"].split("/"))) == runs_on
        assert row["level"] == entry["resolution_bucket_immediate_action"]
    assert set(table) - {entry["code"] for entry in entries} == {"173"}


def test_no_non_fatal_sxid_restarts_or_isolates_and_no_fatal_one_is_only_recorded() -> None:
    classes: dict[str, set[str]] = {}
    for row in rows("nvidia_sxid.csv"):
        classes.setdefault(row["level"], set()).add(row["class"])
    assert classes == {
        "NonFatal": {"record", "deferred"},
        "Fatal": {"self_heal_reset", ""},
        "AlwaysFatal": {"isolate"},
        "Notable": {"record"},
    }


# ---------------------------------------------------------------- exits and nodes


def test_no_exit_code_has_a_ladder_class() -> None:
    assert {(row["class"], row["heal"], row["scope"]) for row in rows("exit_codes.csv")} == {
        ("none", "none", "")
    }


def test_exit_codes_are_what_a_process_can_end_with() -> None:
    assert all(0 <= int(row["code"]) <= 255 for row in rows("exit_codes.csv"))
    assert {"0", "1", "134", "137", "139", "143"} <= set(by_code("exit_codes.csv"))


def test_a_node_that_is_lost_isolates_and_one_under_pressure_does_not() -> None:
    table = by_code("node_conditions.csv")
    assert {table[code]["class"] for code in ("not-ready", "unreachable", "gone")} == {"isolate"}
    assert {table[code]["class"] for code in ("memory-pressure", "disk-pressure", "pid-pressure")} == {
        "record"
    }


def test_conditions_are_slugs() -> None:
    assert (
        where(
            [row for row in rows("node_conditions.csv") if not re.fullmatch(r"[a-z]+(-[a-z]+)*", row["code"])]
        )
        == []
    )


def test_a_condition_that_repeats_chip_codes_does_not_overrule_them() -> None:
    assert by_code("node_conditions.csv")["nt-npu-device"]["class"] == "record"
