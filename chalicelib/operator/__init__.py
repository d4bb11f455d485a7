"""The operator's command line: one file for each noun, such as accounts. It uses click.

It is not in the Lambda package.
"""
