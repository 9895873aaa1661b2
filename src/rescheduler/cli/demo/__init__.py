"""The demo: three chapters in a simulated cluster within two minutes, with the real daemon and webhook.

demo_scenario  the cluster and its events (story.yaml), daemon and webhook, and the goal of each chapter
demo_screen    the live view, or lines if the terminal can't be redrawn
demo_command   `rescheduler demo`, which plays the chapters one after the other
"""
