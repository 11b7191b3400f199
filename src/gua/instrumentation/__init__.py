"""GPU metrics of docs/metrics.md from inside a program that uses OpenTelemetry's SDK (docs/instrumentation.md).

``opentelemetry-instrument`` finds the instrumentor, or two lines of a program start it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakSet

from gua.instrumentation.options import guarded, read_scope, warn_once

try:
    from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined] # no types
except ImportError as error:
    raise ImportError("gua.instrumentation needs the extra: install gua with [instrument]") from error

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider

    from gua.instrumentation.instruments import Instruments
    from gua.instrumentation.readings import SharedReadings

__all__ = ["GpuInstrumentor"]


class GpuInstrumentor(BaseInstrumentor):  # type: ignore[misc] # it has no types
    """Instrumentor that reports GPU metrics through the program's MeterProvider.

    ``instrument(meter_provider=None, scope=None)``: the provider is the global one by default. ``scope`` is "process"
    or "host", by default that of GUA_INSTRUMENT_SCOPE, else "process". Called again, it adds another provider.
    ``uninstrument()`` ends all reading and releases the driver.

    Neither raises: what cannot be done is one warning of the logger ``gua.instrumentation``.
    """

    _source: SharedReadings | None = None
    # A provider has its instruments for its life, also after uninstrument(), and keeps them.
    _instruments: ClassVar[WeakSet[Instruments]] = WeakSet()

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return nothing: gua itself requires nvidia-ml-py."""
        return ()

    def instrument(self, **options: Any) -> None:  # noqa: ANN401 - as of the base class
        """Report metrics through ``meter_provider``; the class states the options."""
        instrument = self._instrument if self.is_instrumented_by_opentelemetry else super().instrument
        instrument(**options)

    @guarded()
    def _uninstrument(self, **_options: Any) -> None:  # noqa: ANN401 - as above
        if self._source is not None:
            self._source.stop()

    @guarded()
    def _instrument(self, *, meter_provider: MeterProvider | None = None, scope: object = None, **more: Any) -> None:  # noqa: ANN401 - as above
        # Imported here, as a program that is not instrumented does not need them. Not later in a thread: a child that
        # is forked during an import could wait for it for ever.
        from opentelemetry.metrics import get_meter_provider  # noqa: PLC0415 - see above

        from gua.instrumentation.instruments import Instruments  # noqa: PLC0415 - see above
        from gua.instrumentation.readings import SharedReadings  # noqa: PLC0415 - see above

        for name in sorted(more.keys() - {"raise_exception_on_conflict"}):
            warn_once(f"option {name}", f"unknown option {name[:64]!r} is ignored: use meter_provider or scope")
        provider = meter_provider or get_meter_provider()
        source = self._source = self._source or SharedReadings()
        if not source.listeners:
            source.stop()
            source.scope = read_scope(scope)
        elif scope not in {None, source.scope}:
            warn_once("scope", f"scope {scope!r:.64} is ignored: {source.scope} is in use until uninstrument()")
        if any(listener.provider is provider for listener in source.listeners):
            warn_once("twice", "this MeterProvider is already instrumented: nothing changes")
            return
        instruments = next((one for one in self._instruments if one.provider is provider), None)
        if instruments is None:
            instruments = Instruments(provider, source)
            self._instruments.add(instruments)
        source.start(instruments)
