"""Whether an update is the float32 full batch's: one attempt after another, held against a float64 judge."""
