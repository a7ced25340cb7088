"""Snakemake with its slurm executor: rules as jobs, one of them failing and tried again."""

import subprocess
from importlib.metadata import version
from pathlib import Path

Path("Snakefile").write_text("""
rule all:
    input: "sum.txt"

rule square:
    output: "squares/{n}.txt"
    resources: mem_mb=200, runtime=5
    shell: "echo $(({wildcards.n} * {wildcards.n})) > {output}"

rule flaky:
    output: "flaky.txt"
    retries: 1
    shell: "test -e tried || {{ touch tried; exit 3; }}; echo 1 > {output}"

rule add:
    input: expand("squares/{n}.txt", n=range(1, 4)), "flaky.txt"
    output: "sum.txt"
    threads: 2
    shell: "cat {input} | awk '{{s+=$1}} END {{print s}}' > {output}"
""")
words = (
    "snakemake --executor slurm --jobs 4 --default-resources slurm_account=science "
    "slurm_partition=debug mem_mb=100 --latency-wait 10 --seconds-between-status-checks 5 "
    "--slurm-init-seconds-before-status-checks 2"
).split()
done = subprocess.run(words, capture_output=True, text=True)
assert done.returncode == 0, done.stdout + done.stderr
assert Path("sum.txt").read_text().strip() == "15"
print("snakemake", version("snakemake"), version("snakemake-executor-plugin-slurm"), "ok")
