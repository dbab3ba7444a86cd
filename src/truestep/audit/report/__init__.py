"""How findings are shown, kept and passed over: as text, SARIF, annotations or JSON, in a baseline, by remarks in the source."""
