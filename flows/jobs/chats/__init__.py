"""Chats: people who talk with an attempt, from a terminal or through a worker.

talk     what a chat is begun with
opening  the cell of an attempt, on any worker
asking   the attempts of a job that wait for a person
mailbox  one attempt as its people see it: its state, and messages to it
history  the words of people and agents
"""
