"""`relight let-go` from the shell: what was done before the API server went away is told, and the failure is in words."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from actuators.jobs import forgotten
from actuators.jobs.forgotten import LetGo
from actuators.reply import OutOfTime
from relight.cli import main
from runtime.errors import ApiAway

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: here, user: me}}]
clusters: [{name: here, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: me, user: {}}]
"""


@pytest.mark.parametrize("failure", [ApiAway("no answer"), OutOfTime("out_of_time", "no time is left")])
def test_what_was_done_before_a_failure_is_told(
    failure: Exception, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path_factory.mktemp("kube") / "config"
    file.write_text(KUBECONFIG, encoding="utf-8")
    monkeypatch.setenv("RELIGHT_CLUSTER", "lab")
    monkeypatch.setenv("RELIGHT_KUBERNETES__KUBECONFIG", str(file))

    def let_go(world: object, *, now: bool) -> Iterator[LetGo]:
        del world, now
        yield LetGo("team/train", "resumed")
        raise failure

    monkeypatch.setattr(forgotten, "let_go", let_go)

    result = CliRunner().invoke(main, ["let-go"])

    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert "team/train" in result.output
    assert str(failure) in result.output
