"""Programs that the controller runs beside its loop: prologs, epilogs, MailProg."""
