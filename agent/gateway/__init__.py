"""The gateway: another program's model calls, as steps of an attempt.

serving   one small server per attempt, on a Unix socket or on loopback
app       the routes of the three dialects
switch    turns a request into a recorded call, and ends the program with its attempt
streams   answers as the events of each dialect
refusals  errors in the words of each dialect
relay.pl  lets a program in a container reach the socket through a port
"""
