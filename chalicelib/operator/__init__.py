"""The operator's command line: one file for each noun, on click. It is not in the Lambda package."""
