"""What the benches that drive jobs share: running programs, reading run folders, medians."""
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def machine():
    """One line: processor, cores, load."""
    model = "?"
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    load = open("/proc/loadavg").read().split()[0]
    return f"{model}, {os.cpu_count()} cores, load average {load}"


def spread(values, digits=2):
    """'median (min to max)'"""
    return (f"{statistics.median(values):.{digits}f} "
            f"({min(values):.{digits}f} to {max(values):.{digits}f})")


def set_args(settings):
    """['a=1'] -> ['--set', 'a=1']"""
    return [part for s in settings for part in ("--set", s)]


class Others:
    """How much of the machine other processes took between start and stop, 0 to 1."""

    def __init__(self):
        self.start = self.read()

    @staticmethod
    def read():
        tick = os.sysconf("SC_CLK_TCK")
        fields = [int(f) for f in open("/proc/stat").readline().split()[1:]]
        busy = (sum(fields[:3]) + sum(fields[5:8])) / tick  # all but idle and waiting for a disk
        own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return time.monotonic(), busy, sum(u.ru_utime + u.ru_stime for u in own)

    def stop(self):
        elapsed, busy, own = (b - a for a, b in zip(self.start, self.read()))
        return max(0.0, (busy - own) / (elapsed * os.cpu_count()))


def quiet_rounds(n, max_others, limit_s, run_round):
    """Calls run_round until n of its results came while others took at most max_others of the
    machine, or until limit_s is over; says what was thrown away. Disturbed rounds come back, marked
    by a second value False, only when there was no quiet one."""
    quiet, disturbed, end = [], [], time.monotonic() + limit_s
    while len(quiet) < n and time.monotonic() < end:
        others = Others()
        result = run_round(len(quiet))
        share = others.stop()
        print(f"    others took {100 * share:.1f} % of the machine"
              f"{'' if share <= max_others else ': not counted'}", flush=True)
        (quiet if share <= max_others else disturbed).append(result)
    print(f"{len(quiet)} quiet rounds, {len(disturbed)} disturbed")
    return (quiet, True) if quiet else (disturbed, False)


class Sampler(threading.Thread):
    """Reads the CPU time of the processes of a name that descend from pid, while they live."""

    def __init__(self, pid, name):
        super().__init__(daemon=True)
        self.pid, self.name, self.cpu_s, self.is_over = pid, name, 0.0, threading.Event()

    def run(self):
        tick = os.sysconf("SC_CLK_TCK")
        while not self.is_over.wait(0.25):
            for entry in os.listdir("/proc"):
                if not entry.isdigit():
                    continue
                try:
                    text = open(f"/proc/{entry}/stat").read()
                except OSError:
                    continue
                name = text[text.index("(") + 1:text.rindex(")")]
                fields = text[text.rindex(")") + 2:].split()
                if name == self.name[:15] and int(fields[1]) == self.pid:
                    self.cpu_s = (int(fields[11]) + int(fields[12])) / tick


class Job:
    """One `stagecoach run` to its end, in a temporary folder that is removed."""

    def __init__(self, bin_dir, job, settings):
        folder = tempfile.mkdtemp(prefix="stagecoach-bench-")
        try:
            started = time.monotonic()
            program = subprocess.Popen(
                [os.path.join(bin_dir, "stagecoach"), "run", job, "--name", "bench",
                 "--runs-dir", folder, "--quiet", *set_args(settings)],
                cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            sampler = Sampler(program.pid, "stagecoach-coordinator")
            sampler.start()
            text = program.communicate()[0]
            sampler.is_over.set()
            if program.returncode != 0:
                sys.exit(f"the job failed with {program.returncode}:\n{text}")
            self.elapsed_s = time.monotonic() - started
            self.coordinator_cpu_s = sampler.cpu_s
            run = os.path.join(folder, "bench")
            self.summary = json.load(open(os.path.join(run, "summary.json")))
            with open(os.path.join(run, "metrics.jsonl")) as f:
                self.steps = [json.loads(line) for line in f]
        finally:
            shutil.rmtree(folder)

    def cause(self, name):
        """Largest share of a rank's window in the median step."""
        return max(r["causes_ms"][name] / r["window_ms"] for r in self.summary["ranks"])

    def sum_error(self):
        """Largest relative difference between a rank's window, from tail end to tail end, and the
        sum of its causes."""
        return max(abs(sum(r["causes_ms"].values()) - r["window_ms"]) / r["window_ms"]
                   for r in self.summary["ranks"])
