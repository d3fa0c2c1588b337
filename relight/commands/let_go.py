"""Resume what relight suspended and can no longer resume, because it is gone: needs the API server alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import click

from relight.tables import output_option, show

SECONDS = 60.0


@click.command()
@click.option(
    "--now", is_flag=True, help="Also what relight may still be at: for who takes it away for good."
)
@output_option
def command(*, now: bool, output: str) -> None:
    """Resume jobs that stay suspended, and make those anew that were deleted to be made anew, once nobody of relight is at them any more.

    \b
    relight let-go
    relight let-go --now -o json

    A suspension carries an end (RELIGHT_ACTING__SUSPENDED_AT_MOST after the last look at it); what others suspended is left alone. Run every few
    minutes by deploy/kubernetes/let-go.yaml. Ends with 1 when a job could not be given back.
    """
    import time

    from actuators.jobs.forgotten import let_go
    from actuators.process import now as clock
    from actuators.reply import Answered
    from actuators.settings import ActuatorSettings
    from actuators.world import Budget, Silence, TimedApi, World
    from runtime.errors import ProcessError
    from runtime.kubernetes import Cluster
    from runtime.settings import read_settings

    settings = read_settings(ActuatorSettings)
    budget = Budget(SECONDS, time.monotonic)
    found, failure = [], ""
    with ThreadPoolExecutor(1) as hands:
        try:
            api = TimedApi(Cluster(settings.kubernetes, "let-go"), budget)
            for one in let_go(World(api, budget, clock, hands, Silence(), settings.acting), now=now):
                found.append(one)  # noqa: PERF402 - what was done before a failure is shown
        except (ProcessError, Answered) as error:
            failure = str(error)
    show(("job", "became", "detail"), [(one.job, one.became, one.detail) for one in found], output)
    if failure:
        raise click.ClickException(failure)
    if any(one.became == "failed" for one in found):
        raise SystemExit(1)
