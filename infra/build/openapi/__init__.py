"""`make openapi`: the OpenAPI document of the API, made of its endpoints and their shapes and of nothing else."""
