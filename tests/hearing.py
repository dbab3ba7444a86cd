"""A command that hears Ctrl-C, also where the suite that starts it runs in the background and hands on an ignored one."""

HEARING = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
"""Hears it, and becomes python with the arguments behind: `python -c HEARING ARGUMENTS...`."""
