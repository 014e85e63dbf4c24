"""Run the agent that the figures are of."""

import contextlib
import subprocess
import sys
import tempfile


@contextlib.contextmanager
def agent_with(settings):
    """Start the agent named on the command line, in a network namespace whose loopback is up; yield its process."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(settings)
        file.flush()
        command = [sys.argv[1], "agent", "--config", file.name]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as agent:
            try:
                yield agent
            finally:
                agent.terminate()
