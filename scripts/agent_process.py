"""Run the agent that the figures are of, and compare them with the budgets."""

import contextlib
import subprocess
import sys
import tempfile


class Budgets:
    """Figures that are worse than their budget."""

    def __init__(self):
        self.missed = []

    def most(self, what, figure, budget):
        if figure > budget:
            self.missed.append(f"{what}: {figure:.3g} is more than {budget}")

    def least(self, what, figure, budget):
        if figure < budget:
            self.missed.append(f"{what}: {figure:.3g} is less than {budget}")

    def end(self):
        """End with status 1 if a budget was missed."""
        if self.missed:
            sys.exit("\n".join(self.missed))


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
