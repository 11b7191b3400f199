"""Whether this machine has an NVIDIA card, according to the kernel: it must not depend on what is installed."""

from __future__ import annotations

from pathlib import Path

_NVIDIA = "0x10de"
_DISPLAY = "0x03"  # PCI class: VGA and 3D controllers
_SURE = ("dev/nvidiactl", "dev/nvidia0", "proc/driver/nvidia/version")


def evidence(root: Path = Path("/")) -> str | None:
    """Return what says that a card is here, ``None`` if nothing does.

    A card whose driver is not loaded counts: then the tests fail, and say so, instead of being left out.
    """
    for path in _SURE:
        if (root / path).exists():
            return f"/{path}"
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        if _text(device / "vendor") == _NVIDIA and _text(device / "class").startswith(_DISPLAY):
            return f"PCI device {device.name}"
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
