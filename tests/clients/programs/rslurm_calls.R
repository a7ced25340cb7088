# rslurm: a function over a table as an array, a single call, a job that is cancelled.
suppressPackageStartupMessages(library(rslurm))
table <- data.frame(left = 1:6, right = 10)
job <- slurm_apply(function(left, right) left + right, table, jobname = "sums", nodes = 3, cpus_per_node = 2)
stopifnot(get_slurm_out(job, outtype = "table", wait = TRUE)$V1 == 11:16)
stopifnot(get_job_status(job)$completed, nrow(get_job_status(job)$queue) == 0)
twice <- slurm_call(function(x) x * 2, list(x = 21), jobname = "twice")
stopifnot(get_slurm_out(twice, wait = TRUE) == 42)
stopped <- slurm_call(function(x) Sys.sleep(600), list(x = 1), jobname = "stopped")
stopifnot(!get_job_status(stopped)$completed, nrow(get_job_status(stopped)$queue) == 1)
cancel_slurm(stopped)
for (try in 1:120) {
  if (get_job_status(stopped)$completed) break
  Sys.sleep(0.5)
}
stopifnot(get_job_status(stopped)$completed)
cat(as.character(packageVersion("rslurm")), "ok\n")
