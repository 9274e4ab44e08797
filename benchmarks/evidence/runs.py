"""Makes runs: on all cores, each once, its JSON kept, so that what was interrupted can go on.

Results lie in a folder named after the simulator's bytes: another build has others. A simulation is
a function of its arguments, so what is kept is what would be computed.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time


class RunFailed(Exception):
    """The simulator refused a run or failed. The text has its command and its message."""


class Runner:
    """Not for several threads. Several processes may share a folder."""

    def __init__(self, tool, folder, jobs, time_limit_s=None):
        self._tool = pathlib.Path(tool)
        build = hashlib.sha256(self._tool.read_bytes()).hexdigest()[:12]
        self._folder = pathlib.Path(folder) / build
        self._folder.mkdir(parents=True, exist_ok=True)
        self._jobs = jobs
        self._end_s = None if time_limit_s is None else time.monotonic() + time_limit_s

    @property
    def folder(self):
        return self._folder

    def result(self, run):
        """The output of the run, parsed; None if it is not there or damaged."""
        try:
            return json.loads((self._folder / run.file_name).read_text())
        except (OSError, ValueError):
            return None

    def make(self, runs, what):
        """Makes those that are missing, and returns {run: output} of all that are there.

        When the time is over no run is begun, and the missing ones are not in the answer.
        """
        runs = list(dict.fromkeys(runs))
        results = {run: self.result(run) for run in runs}
        missing = [run for run in runs if results[run] is None]
        done, begun_s, begun_cpu_s = len(runs) - len(missing), time.monotonic(), cpu_s()
        progress = Progress(what, len(runs))
        progress.show(done)
        with concurrent.futures.ThreadPoolExecutor(self._jobs) as pool:
            futures = {pool.submit(self._make, run): run for run in missing}
            try:
                for future in concurrent.futures.as_completed(futures):
                    if (output := future.result()) is not None:
                        results[futures[future]] = output
                        done += 1
                        progress.show(done)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        progress.end(done, time.monotonic() - begun_s, cpu_s() - begun_cpu_s)
        return {run: output for run, output in results.items() if output is not None}

    def _make(self, run):
        if self._end_s is not None and time.monotonic() >= self._end_s:
            return None
        command = [str(self._tool), *run.arguments, "--json", "-"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RunFailed(f"{' '.join(command)}: exit code {done.returncode}: "
                            f"{done.stderr.strip()}")
        output = json.loads(done.stdout)
        # Whole or not at all, whenever this process ends.
        with tempfile.NamedTemporaryFile("w", dir=self._folder, delete=False) as file:
            file.write(done.stdout)
        os.replace(file.name, self._folder / run.file_name)
        return output


def cpu_s():
    """Processor time of the programs that were called and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Progress:
    """A bar on a terminal; elsewhere a line at the end."""

    def __init__(self, what, total):
        self._what, self._total = what, total
        self._terminal = sys.stderr.isatty()

    def show(self, done):
        if self._terminal and self._total:
            bar = "#" * (30 * done // self._total)
            print(f"\r{self._what:<8} [{bar:<30}] {done}/{self._total}", end="", file=sys.stderr,
                  flush=True)

    def end(self, done, seconds, processor_s):
        start = "\n" if self._terminal and self._total else ""
        print(f"{start}{self._what}: {done} of {self._total} runs there, {seconds:.0f} s, "
              f"{processor_s:.0f} s of processor time", file=sys.stderr)
