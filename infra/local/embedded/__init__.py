"""The process of the embedded cloud: MiniStack with access control, in `.venv-cloud`, without the API's packages."""

PROCESS = "process"  # the file with the process id, which only a cloud without persistence writes
UNUSABLE = 3  # the exit status if the folder's state cannot be loaded; the last line printed is the reason
