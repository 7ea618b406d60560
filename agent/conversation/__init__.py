"""A role's conversation with a model: it uses tools until it answers.

conversation.py  requests, rounds and the context window
using.py         the calls of one reply, native tools at the same time
exchanges.py     what a conversation is given and what comes out of it
answers.py       the base of typed answers
protocols.py     native tool calls, or fenced blocks
facts.py         a role's input as Markdown
limits.py        the limits of an attempt
"""
