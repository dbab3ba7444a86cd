"""The tables of the interactive pictures, written by the engine: a picture looks up and draws."""
