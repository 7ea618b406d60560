"""Where does the noise come from?"""
