"""The programs of the controller for jobs: PrologSlurmctld, EpilogSlurmctld, MailProg."""
