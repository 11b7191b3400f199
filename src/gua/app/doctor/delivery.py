"""Checks of the destinations of ticks: the embedded engine, a store, an endpoint."""

import os
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

from gua.app.destinations import agent_destinations
from gua.app.doctor.finding import Finding, error_finding, failed, ok, skipped
from gua.core.errors import GuaError, UnavailableError, UsageError
from gua.core.ports import SpooledTick
from gua.otlp.endpoint import read_settings
from gua.state.compression import compress
from gua.state.enrollment import Enrollment, read_enrollment
from gua.store.directory import StoreDirectory
from gua.store.dsn import EmbeddedDsn, ServerDsn, parse_dsn
from gua.store.engine import check_engine, install_command

_PACKAGE = "chdb-core"


def check_delivery(store: str | None, endpoint: str | None, home: Path, environ: Mapping[str, str]) -> list[Finding]:
    """Return findings on every destination of ``gua daemon`` with these options."""
    try:
        engine = metadata.version(_PACKAGE)  # without an import
    except metadata.PackageNotFoundError:
        engine = None
    try:
        destinations = agent_destinations(store, endpoint, home)
    except (UnavailableError, UsageError) as error:
        return [error_finding("destination", error)]
    findings = [ok("destination", " and ".join(one.where for one in destinations))]
    for one in destinations:
        if one.store:
            parsed = parse_dsn(one.store, password=environ.get("GUA_STORE_PASSWORD"))
            if isinstance(parsed, ServerDsn):
                findings.append(_server(one.store, environ))
            else:
                findings += check_embedded(parsed, engine)
        if one.endpoint:
            enrollment = read_enrollment(home) if one.enrolled else None
            findings.append(check_endpoint(one.endpoint, environ, enrollment))
    return findings


def check_embedded(dsn: EmbeddedDsn, engine: str | None) -> list[Finding]:
    """Return findings on an embedded store without opening it: opening locks it, and creates a missing one."""
    if engine is None:
        remedy = f"run {install_command()}, or deliver elsewhere with --endpoint or --store"
        return [failed("engine", "the embedded one is not installed", remedy)]
    findings = [ok("engine", f"{_PACKAGE} {engine}")]
    directory = StoreDirectory(dsn.path)
    try:
        if not directory.exists():
            return [*findings, ok("store", f"{dsn.path} is not there yet: the first landing makes it")]
        stamped = directory.stamped_engine()
        check_engine(dsn.path, stamped=stamped, running=engine)
    except UnavailableError as error:
        return [*findings, error_finding("store", error)]
    except OSError as error:
        return [*findings, skipped("store", f"{dsn.path} cannot be looked at ({error.strerror})")]
    if not os.access(dsn.path, os.R_OK | os.W_OK | os.X_OK):
        owner = dsn.path.stat().st_uid
        detail = f"{dsn.path} belongs to uid {owner} and may not be written by this user"
        return [*findings, failed("store", detail, "run gua as its owner, or name another with --store")]
    return [*findings, ok("store", f"{dsn.path}, written by engine {stamped}")]


def _server(address: str, environ: Mapping[str, str]) -> Finding:
    from gua.store.database import open_store  # noqa: PLC0415 - only for a server

    try:
        with open_store(address, password=environ.get("GUA_STORE_PASSWORD")) as opened:
            opened.schema.require()
            return ok("store", f"{opened.dsn} answers, ClickHouse {opened.engine()}, schema as needed")
    except GuaError as error:
        return error_finding("store", error)


def check_endpoint(url: str, environ: Mapping[str, str], enrollment: Enrollment | None = None) -> Finding:
    """Send an empty request, with the enrollment's token if any, and return the finding; OTLP stores nothing of it."""
    from gua.otlp.send import open_endpoint  # noqa: PLC0415 - loads an exporter

    empty = SpooledTick(id=0, ts_ms=0, raw_length=0, blob=compress(b""))
    try:
        settings = read_settings(url, environ, enrollment)
        opened = open_endpoint(url, environ=environ, enrollment=enrollment, patience_seconds=0)
        try:
            refused: Sequence[SpooledTick] = opened.land([empty])
        finally:
            opened.close()
    except GuaError as error:
        return error_finding("endpoint", error)
    how = "TLS" if settings.secure else "without TLS"
    spoken = f"{settings.shown}, {settings.protocol}, {how}{', enrolled' if settings.enrolled else ''}"
    if refused:
        return failed("endpoint", f"{spoken}: it refuses an empty request", "check that it receives OTLP")
    return ok("endpoint", f"{spoken}: it accepts metrics")
