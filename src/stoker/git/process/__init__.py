"""Processes of git: started in one place, listened to with limits, ended whatever happens."""
