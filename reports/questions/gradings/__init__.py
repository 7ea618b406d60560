"""How wrong may the grader be?"""
