# b2luigi (Belle II): five tasks as jobs, of which one fails, and what needs them.
set -eu
cat >tasks.py <<'END'
import os
from pathlib import Path

import b2luigi

b2luigi.set_setting("result_dir", "results")


class Number(b2luigi.Task):
    number = b2luigi.IntParameter()
    batch_system = "slurm"
    slurm_settings = {"ntasks": 1, "time": "5:00"}

    def output(self):
        yield self.add_to_output("number.txt")

    def run(self):
        assert self.number != 9
        text = f"{self.number} {os.environ['SLURM_JOB_ID']}\n"
        Path(self.get_output_file_name("number.txt")).write_text(text)


class Sum(b2luigi.Task):
    last = b2luigi.IntParameter()
    batch_system = "local"

    def requires(self):
        return [self.clone(Number, number=number) for number in (1, 2, 3, self.last)]

    def output(self):
        yield self.add_to_output("sum.txt")

    def run(self):
        words = [Path(name).read_text().split() for name in self.get_input_file_names("number.txt")]
        jobs = {job for _, job in words}
        text = f"{sum(int(number) for number, _ in words)} of {len(jobs)}\n"
        Path(self.get_output_file_name("sum.txt")).write_text(text)


if __name__ == "__main__":
    b2luigi.process([Sum(last=4), Sum(last=9)], workers=8, batch=True,
                    ignore_additional_command_line_args=True)
END
python tasks.py >said.txt 2>&1 || true
grep -q '4 Number(number=1...4)' said.txt || { cat said.txt; exit 1; }
grep -q '1 had failed dependencies' said.txt
[ "$(cat results/last=4/sum.txt)" = "10 of 4" ]
echo "b2luigi $(python -c 'import importlib.metadata as m; print(m.version("b2luigi"))') ok"
