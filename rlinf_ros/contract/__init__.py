"""The contract document: what crosses between robot and policy (model, fields, errors).

Imports nothing of the project; numpy-free, PyYAML only.
"""
