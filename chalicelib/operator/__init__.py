"""The operator's command line: one file for each noun, such as accounts. It uses click.

The Lambda package does not contain this folder.
"""
