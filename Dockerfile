# One image for every process of relight; the command says which: `relight router`, `relight recovery`, ...
# Built in two steps, so that no compiler and no package index settings end up in what runs.

FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml requirements.lock README.md LICENSE ./
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
# The lock names what tests need as well; without tests the image is a quarter of the size.
RUN python -m venv /opt/relight \
    && /opt/relight/bin/pip install --no-cache-dir --quiet --constraint requirements.lock hatchling editables \
    && /opt/relight/bin/pip install --no-cache-dir --quiet --constraint requirements.lock --no-build-isolation . \
    && /opt/relight/bin/python -m supervisor.build /opt/relight/supervisor.pyz

FROM python:3.11-slim-bookworm
RUN useradd --system --uid 10001 --no-create-home relight
COPY --from=build /opt/relight /opt/relight
# Python never imports from the working folder, which somebody else may have filled.
ENV PATH=/opt/relight/bin:$PATH PYTHONSAFEPATH=1 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001
ENTRYPOINT ["relight"]
CMD ["--help"]
