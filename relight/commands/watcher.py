"""Run the cluster watcher: tells what becomes of runs, pods and nodes of a cluster."""

from __future__ import annotations

import click


@click.command()
def command() -> None:
    """Run the cluster watcher until SIGTERM. Settings come from RELIGHT_*; RELIGHT_CLUSTER must be set.

    In a pod it uses the pod's service account, elsewhere RELIGHT_KUBERNETES__KUBECONFIG.
    """
    from producers.cluster.settings import WatcherSettings
    from producers.cluster.watcher_process import run_watcher
    from producers.errors import ProducerError
    from runtime import logs
    from runtime.errors import ProcessError
    from runtime.settings import read_settings
    from schemas.errors import CatalogueError

    try:
        settings = read_settings(WatcherSettings)
        logs.configure(settings.observe.log_level)
        run_watcher(settings)
    except (CatalogueError, ProcessError, ProducerError) as error:
        raise click.ClickException(str(error)) from error
