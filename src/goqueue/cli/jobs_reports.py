"""`goqueue pipeline job`: the jobs that look at data and change nothing."""
