"""`sedml console` as a real process: started, asked for its address, stopped by Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

__all__ = ["Console", "console_of"]

_WITHIN = 30.0


@dataclass
class Console:
    """One that runs."""

    process: subprocess.Popen[str]
    address: str
    """With the token."""

    @property
    def origin(self) -> str:
        return f"http://{urlsplit(self.address).netloc}"

    def stop(self, by: signal.Signals = signal.SIGINT) -> str:
        """Press Ctrl-C; all that it printed after its address."""
        self.process.send_signal(by)
        rest, _ = self.process.communicate(timeout=_WITHIN)
        return rest


@contextmanager
def console_of(kit: Path, **environment: str) -> Iterator[Console]:
    """The console of a kit, from its start to its end; it must end well, and say nothing that it need not."""
    command = [sys.executable, "-m", "sedml", "console", "--kit", str(kit), "--no-open"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | environment
    ) as process:
        try:
            assert process.stdout is not None
            lines = []
            for line in process.stdout:
                lines.append(line)
                if line.startswith("Ctrl-C"):
                    break
            address = next((line.strip() for line in lines if "/open?token=" in line), None)
            assert address is not None, "".join(lines)
            console = Console(process, address)
            yield console
            if process.poll() is None:
                assert console.stop() == ""
            assert process.returncode == 0
        finally:
            process.kill()
