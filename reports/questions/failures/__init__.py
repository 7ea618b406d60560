"""Why do attempts fail?"""
