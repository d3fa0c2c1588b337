"""Injection of texts: other documents keep their bytes, comments stay, and Kubernetes reads what we meant."""

import json
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # as Kubernetes does, it reads YAML 1.1

from actuators.injection.inject import Injection, inject
from actuators.injection.text import ManifestError, change_text
from runtime.kubernetes import Object
from tests.actuators.manifests import OPTIONS, manifest

JOB = """\
# what the team says
apiVersion: batch/v1
kind: Job
metadata:
  name: train   # keep me
  annotations:
    fault-tolerance/job-retry-num: "3"
    answer: yes-and-no
spec:
  completionMode: Indexed
  completions: 2
  parallelism: 2
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: trainer:1
        command: ["python", "train.py"]
        env:
        - {name: MODE, value: "on"}
      volumes:
      - name: data
        secret: {secretName: x, defaultMode: 0644}
"""
OTHER = """\
apiVersion: v1
kind:   ConfigMap    # odd spacing stays
metadata: {name: settings}
data:
    script: |
      --- not a document
      echo $$
"""


def change(found: Object) -> Injection:
    return inject(found, OPTIONS)


def read(text: str) -> list[Any]:
    return [found for found in yaml.safe_load_all(text) if found is not None]


def test_text_and_dictionary_come_to_the_same_for_a_reader_of_yaml_1_1() -> None:
    changed = change_text(JOB, change)

    assert read(changed.text) == [inject(read(JOB)[0], OPTIONS).manifest]


def test_comments_and_style_stay_and_lines_are_only_added_where_something_is_injected() -> None:
    changed = change_text(JOB, change).text

    gone = [line for line in JOB.splitlines() if line not in changed.splitlines()]
    assert gone == ['        command: ["python", "train.py"]']
    assert "# keep me" in changed
    assert "defaultMode: 0644" in changed


@pytest.mark.parametrize(
    "text",
    [
        f"{OTHER}---\n{JOB}---\n{OTHER}",
        f"---\n{OTHER}--- # a comment\n{JOB}...\n",
        f"{JOB}---\n\n---\n# nothing here\n---\n{OTHER}",
    ],
)
def test_other_documents_keep_their_bytes(text: str) -> None:
    changed = change_text(text, change)

    assert changed.text.count(OTHER) == text.count(OTHER)
    assert len(read(changed.text)) == len(read(text))
    assert sum(report.injection.untouched is None for report in changed.reports) == 1


def test_a_text_without_a_job_keeps_its_bytes() -> None:
    for text in (OTHER, "", "# only a comment\n", "---\n---\n", "just text\n", OTHER.replace("\n", "\r\n")):
        assert change_text(text, change).text == text


def test_twice_is_as_once() -> None:
    once = change_text(f"{OTHER}---\n{JOB}", change).text

    assert change_text(once, change).text == once


def test_json_stays_json_with_its_indentation() -> None:
    text = json.dumps(manifest(), indent=4) + "\n"

    changed = change_text(text, change).text

    assert json.loads(changed) == inject(manifest(), OPTIONS).manifest
    assert '\n    "kind"' in changed
    assert change_text(json.dumps({"kind": "ConfigMap"}), change).text == '{"kind": "ConfigMap"}'


def test_the_jobs_of_a_list_are_injected() -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [{"kind": "ConfigMap"}, manifest()]})

    changed = change_text(text, change)

    assert json.loads(changed.text)["items"] == [{"kind": "ConfigMap"}, inject(manifest(), OPTIONS).manifest]
    assert [report.name for report in changed.reports] == ["ConfigMap (no name)", "Job train"]


@pytest.mark.parametrize("text", ["a: [", "{", "a: b: c", "a: 1\na: 2\n", "\tkey: x"])
def test_what_is_no_manifest_is_said_and_not_guessed(text: str) -> None:
    with pytest.raises(ManifestError):
        change_text(text, change)
