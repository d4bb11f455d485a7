"""The embedded cloud's process: MiniStack behind a guard. It runs in `.venv-cloud`, where nothing of the API is."""

PROCESS = "process"  # the file in which a cloud that keeps nothing leaves its process id
UNUSABLE = 3  # the exit status when what the folder keeps cannot be taken up; the last line it prints says why
