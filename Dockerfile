# One image for every process of relight; the command says which: `relight router`, `relight recovery`, ...
# Built in two steps, so that no compiler, no installer and no package index settings end up in what runs. Packages are those of the lock, each checked
# by its hash; what only tests need is left out.

FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml requirements.lock README.md LICENSE ./
COPY deploy/locked.py deploy/locked.py
RUN python deploy/locked.py > /tmp/runtime.lock \
    && python deploy/locked.py hatchling > /tmp/build.lock \
    && python -m venv /opt/relight \
    && python -m venv /tmp/tools \
    && /opt/relight/bin/pip install --no-cache-dir --quiet --no-deps --require-hashes --requirement /tmp/runtime.lock \
    && /tmp/tools/bin/pip install --no-cache-dir --quiet --no-deps --require-hashes --requirement /tmp/build.lock
COPY actuators actuators
COPY audit audit
COPY producers producers
COPY recovery recovery
COPY relight relight
COPY rules rules
COPY runtime runtime
COPY sandbox sandbox
COPY schemas schemas
COPY streams streams
COPY supervisor supervisor
RUN /tmp/tools/bin/python -m hatchling build --target wheel --directory /tmp/wheel \
    && /opt/relight/bin/pip install --no-cache-dir --quiet --no-deps --no-index /tmp/wheel/*.whl \
    && /opt/relight/bin/pip check \
    && /opt/relight/bin/python -m supervisor.build /opt/relight/supervisor.pyz \
    && /opt/relight/bin/pip uninstall --quiet --yes setuptools pip

FROM python:3.11-slim-bookworm
RUN useradd --system --uid 10001 --no-create-home relight
COPY --from=build /opt/relight /opt/relight
# Python never imports from the working folder, which somebody else may have filled.
ENV PATH=/opt/relight/bin:$PATH PYTHONSAFEPATH=1 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001
ENTRYPOINT ["relight"]
CMD ["--help"]
