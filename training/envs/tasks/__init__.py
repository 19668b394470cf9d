"""Tasks: what an episode starts with, what is rewarded, what counts as success; one file per task.

A task is a class that derives from `task.Task`; a path to a file of the user's own works the same.
"""
