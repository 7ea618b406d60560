"""Text that runs in interpreters of workspaces, from Python 3.8 on. It is never imported here.

`watching`, `values`, `heap`, `making` and `kernel` are one program, in this order.
"""
