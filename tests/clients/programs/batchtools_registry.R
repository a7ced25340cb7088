# batchtools and future.batchtools with batchtools' own Slurm template.
library(batchtools)
template <- system.file("templates", "slurm-simple.tmpl", package = "batchtools")
functions <- makeClusterFunctionsSlurm(template = template)
registry <- makeRegistry(file.dir = "registry", make.default = TRUE)
registry$cluster.functions <- functions
wanted <- list(walltime = 120, memory = 300, ncpus = 1, partition = "debug")
ids <- batchMap(function(x) { if (x == 3) stop("on purpose"); x * x }, x = 1:3)
submitJobs(ids, resources = wanted)
waitForJobs(ids, sleep = 1, timeout = 120)
stopifnot(identical(unlist(lapply(1:2, loadResult)), c(1L, 4L)), nrow(findErrors()) == 1L)
sleeper <- batchMap(function(s) Sys.sleep(s), s = 100, reg = (other <- {
  made <- makeRegistry(file.dir = "other", make.default = FALSE)
  made$cluster.functions <- functions
  made
}))
submitJobs(sleeper, resources = wanted, reg = other)
stopifnot(nrow(findOnSystem(reg = other)) == 1L)
killJobs(sleeper, reg = other)
suppressPackageStartupMessages(library(future.batchtools))
plan(batchtools_slurm, template = template, resources = wanted)
stopifnot(value(future(6 * 7)) == 42)
cat("batchtools", format(packageVersion("batchtools")), "future.batchtools",
    format(packageVersion("future.batchtools")), "ok\n")
